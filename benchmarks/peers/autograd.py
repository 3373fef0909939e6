"""HIPS autograd: NumPy, traced operation by operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..overhead import CONSTANT, START, Chain
from ..works import MLP, Attention, Decoder
from .array_models import ArrayStep, Library, gpt_loss, mlp_loss

LABEL = "HIPS autograd"
PACKAGES = ("autograd",)
CANNOT = {"phrasebook": "not written"}


def library() -> Library:
    import autograd.numpy as anp
    from autograd.scipy.special import logsumexp

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + anp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        x = x - anp.mean(x, axis=-1, keepdims=True)
        return x / anp.sqrt(anp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight + bias

    def cross_entropy(logits: Any, y: Any) -> Any:
        picked = logits[np.arange(len(y)), y]
        return anp.mean(logsumexp(logits, axis=1) - picked)

    return Library(
        lambda x: anp.maximum(x, 0), gelu, lambda x: anp.split(x, 3, -1), layer_norm, attend, cross_entropy
    )


def attend(q: Any, k: Any, v: Any) -> Any:
    """softmax(q kᵀ / sqrt(d)) v of (B, T, H, d), causal."""
    import autograd.numpy as anp

    T, d = q.shape[1], q.shape[3]
    q, k, v = (anp.swapaxes(x, 1, 2) for x in (q, k, v))
    scores = anp.matmul(q, anp.swapaxes(k, -1, -2)) * (1 / math.sqrt(d))
    scores = anp.where(np.tri(T, dtype=bool), scores, np.float32(-1e9))
    weights = anp.exp(scores - anp.max(scores, axis=-1, keepdims=True))
    weights = weights / anp.sum(weights, axis=-1, keepdims=True)
    return anp.swapaxes(anp.matmul(weights, v), 1, 2)


def both(loss: Callable[..., Any]) -> Callable[..., tuple[float, dict[str, np.ndarray]]]:
    from autograd import value_and_grad

    return value_and_grad(loss)


def decoder(work: Decoder, weights: dict[str, np.ndarray]) -> ArrayStep:
    lib = library()
    return ArrayStep(weights, work.batches(), both(lambda p, x, y: gpt_loss(lib, work, p, x, y)))


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> ArrayStep:
    lib = library()
    return ArrayStep(weights, work.batches(), both(lambda p, x, y: mlp_loss(lib, work, p, x, y)), plain=True)


def attention(work: Attention, weights: dict[str, np.ndarray]) -> ArrayStep:
    import autograd.numpy as anp

    def loss(p: Any, g: Any) -> Any:
        q, k, v = (anp.swapaxes(p[name], 1, 2) for name in ("query", "key", "value"))
        return anp.sum(anp.swapaxes(attend(q, k, v), 1, 2) * g)

    step = ArrayStep(weights, work.batches(), both(loss))
    step.updates = False
    return step


def chain(of: Chain) -> Callable[[], Any]:
    import autograd.numpy as anp
    from autograd import value_and_grad

    run = value_and_grad(lambda w: anp.sum(of(w, c, anp.tanh)))
    w, c = (np.array(x, np.float32) for x in (START, CONSTANT))
    return lambda: run(w)
