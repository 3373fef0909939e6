"""JAX: the whole step under jit, weights and moments donated, so that they are updated in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import numpy as np

from ..overhead import CONSTANT, START, Chain
from ..works import BETAS, DECAY, EPS, LR, MLP, Decoder, First, Phrasebook
from .array_models import Library, Seq2Seq, gpt_loss, mlp_loss

LABEL = "JAX jit"
CHAIN = "JAX, not compiled"
PACKAGES = ("jax",)
CANNOT: dict[str, str] = {}


def settings(threads: int) -> dict[str, str]:
    """For the environment: XLA has no other way to set threads (the process is also pinned to as many
    cores)."""
    flags = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()} intra_op_parallelism_threads={threads}"
    return {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


class Step:
    """Training steps compiled as a whole: (weights, m, v, step), batch -> the same, loss.

    A loss with `draws` gets a random key in training.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        weights: Mapping[str, np.ndarray],
        batches: list[tuple[np.ndarray, ...]],
        update: Callable[..., Any],
        draws: bool = False,
    ) -> None:
        import jax
        import jax.numpy as jnp

        def step(state: Any, *batch: Any) -> Any:
            noise = {"key": jax.random.fold_in(jax.random.key(0), state[3])} if draws else {}
            value, gradients = jax.value_and_grad(loss)(state[0], *batch, **noise)
            return update(state, gradients), value

        p = {name: jnp.array(array) for name, array in weights.items()}
        zeros = jax.tree.map(jnp.zeros_like, p)
        self.state = (p, zeros, jax.tree.map(jnp.zeros_like, p), jnp.zeros((), jnp.int32))
        self.batches = [tuple(jnp.array(array) for array in batch) for batch in batches]
        self.next = cycle(self.batches)
        self.step = jax.jit(step, donate_argnums=0)
        self.value = jax.jit(loss)
        self.both = jax.jit(jax.value_and_grad(loss))
        self.finished = jax.block_until_ready

    def __call__(self) -> None:
        self.state, _ = self.step(self.state, *next(self.next))
        self.finished(self.state)

    def first(self) -> First:
        loss, gradients = self.both(self.state[0], *self.batches[0])
        return First(float(loss), {name: np.asarray(g) for name, g in gradients.items()})

    def loss(self) -> float:
        return float(self.value(self.state[0], *self.batches[0]))


def adamw(state: Any, gradients: Any) -> Any:
    import jax
    import jax.numpy as jnp

    p, m, v, step = state
    step = step + 1
    m = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, m, gradients)
    v = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, v, gradients)
    rate = LR / (1 - BETAS[0] ** step)
    root = 1 / jnp.sqrt(1 - BETAS[1] ** step)
    p = jax.tree.map(lambda p, m, v: p * (1 - LR * DECAY) - rate * m / (jnp.sqrt(v) * root + EPS), p, m, v)
    return p, m, v, step


def sgd(state: Any, gradients: Any) -> Any:
    import jax

    return (jax.tree.map(lambda p, g: p - LR * g, state[0], gradients), *state[1:])


def library() -> Library:
    import jax
    import jax.numpy as jnp

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        var = x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * weight + bias

    def cross_entropy(logits: Any, y: Any) -> Any:
        log_p = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(log_p, y[:, None], 1).mean()

    def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=mask is None)

    return Library(
        jax.nn.relu, jax.nn.gelu, lambda x: jnp.split(x, 3, -1), layer_norm, attention, cross_entropy
    )


def decoder(work: Decoder, weights: dict[str, np.ndarray]) -> Step:
    lib = library()
    return Step(lambda p, x, y: gpt_loss(lib, work, p, x, y), weights, work.batches(), adamw)


def phrasebook(work: Phrasebook, weights: dict[str, np.ndarray]) -> Step:
    """Each shape of its batches is compiled separately."""
    import jax
    import jax.numpy as jnp

    model = Seq2Seq(library(), work.config)
    rate = work.config.dropout
    smoothing = work.label_smoothing

    def dropout(key: Any) -> Callable[[Any], Any]:
        keys = iter(jax.random.split(key, model.dropouts))

        def drop(x: Any) -> Any:
            return jnp.where(jax.random.bernoulli(next(keys), 1 - rate, x.shape), x / (1 - rate), 0)

        return drop

    def loss(p: Any, source: Any, target_in: Any, target_out: Any, key: Any = None) -> Any:
        logits = model.logits(p, source, target_in, (lambda x: x) if key is None else dropout(key))
        log_p = jax.nn.log_softmax(logits)
        counts = target_out != -100
        of_target = jnp.take_along_axis(log_p, jnp.where(counts, target_out, 0)[..., None], -1)[..., 0]
        losses = (1 - smoothing) * of_target + smoothing * log_p.mean(-1)
        return -jnp.where(counts, losses, 0).sum() / counts.sum()

    return Step(loss, weights, work.batches(), adamw, draws=True)


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Step:
    lib = library()
    return Step(lambda p, x, y: mlp_loss(lib, work, p, x, y), weights, work.batches(), sgd)


def chain(of: Chain) -> Callable[[], Any]:
    """Not compiled: operation by operation, as in a debugger."""
    import jax
    import jax.numpy as jnp

    both = jax.value_and_grad(lambda w: of(w, c, jnp.tanh).sum())
    w, c = jnp.array(START), jnp.array(CONSTANT)
    return lambda: jax.block_until_ready(both(w))
