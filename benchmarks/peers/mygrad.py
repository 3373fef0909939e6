"""MyGrad: NumPy with a tape; its memory guard is off, as its authors advise for speed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..overhead import CONSTANT, START, Chain
from ..works import MLP, Decoder
from .array_models import ArrayStep, Library, gpt_loss, mlp_loss

LABEL = "MyGrad"
PACKAGES = ("mygrad",)
CANNOT = {"phrasebook": "not written", "attention": "not written", "base": "not run: steps take too long"}


def library() -> Library:
    import mygrad as mg
    from mygrad import nnet
    from mygrad.nnet.losses import softmax_crossentropy

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + mg.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        x = x - mg.mean(x, axis=-1, keepdims=True)
        return x / mg.sqrt(mg.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight + bias

    def thirds(x: Any) -> list[Any]:
        d = x.shape[-1] // 3
        return [x[..., i * d : (i + 1) * d] for i in range(3)]

    def attention(q: Any, k: Any, v: Any) -> Any:
        T, d = q.shape[1], q.shape[3]
        q, k, v = (mg.swapaxes(x, 1, 2) for x in (q, k, v))
        scores = mg.matmul(q, mg.swapaxes(k, -1, -2)) * (1 / math.sqrt(d))
        masked = mg.where(np.tri(T, dtype=bool), scores, np.float32(-1e9))
        return mg.swapaxes(mg.matmul(nnet.softmax(masked), v), 1, 2)

    return Library(lambda x: nnet.relu(x), gelu, thirds, layer_norm, attention, softmax_crossentropy)


def both(loss: Callable[..., Any]) -> Callable[..., tuple[float, dict[str, np.ndarray]]]:
    """Loss and gradients of weights in a dict."""
    import mygrad as mg

    mg.turn_memory_guarding_off()

    def run(weights: dict[str, np.ndarray], *batch: Any) -> tuple[float, dict[str, np.ndarray]]:
        p = {name: mg.tensor(array, copy=False) for name, array in weights.items()}
        value = loss(p, *batch)
        value.backward()
        return value.item(), {name: tensor.grad for name, tensor in p.items()}

    return run


def decoder(work: Decoder, weights: dict[str, np.ndarray]) -> ArrayStep:
    lib = library()
    return ArrayStep(weights, work.batches(), both(lambda p, x, y: gpt_loss(lib, work, p, x, y)))


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> ArrayStep:
    lib = library()
    return ArrayStep(weights, work.batches(), both(lambda p, x, y: mlp_loss(lib, work, p, x, y)), plain=True)


def chain(of: Chain) -> Callable[[], Any]:
    import mygrad as mg

    mg.turn_memory_guarding_off()
    w = mg.tensor(np.array(START, np.float32))
    c = np.array(CONSTANT, np.float32)
    return lambda: mg.sum(of(w, c, mg.tanh)).backward()
