"""tinygrad on the CPU, the step under TinyJit: traced once, then its compiled kernels are replayed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from ..works import BETAS, DECAY, EPS, LR, MLP, Attention, Decoder, First
from .array_models import Library, gpt_loss, mlp_loss

LABEL = "tinygrad"
PACKAGES = ("tinygrad",)
COMPILERS = ("clang",)
CANNOT = {
    **dict.fromkeys(("nano", "base"), "not run: it compiles for minutes"),
    "phrasebook": "not written: its batches have many shapes, and each is compiled separately",
    "chain": "lazy: a chain of 2,000 operations is compiled as a few kernels",
}


def settings(threads: int) -> dict[str, str]:
    return {"DEV": "CPU", "CPU_COUNT": str(threads), "THREADS": str(int(threads > 1))}


def library() -> Library:
    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return x.layernorm(eps=1e-5) * weight + bias

    def attention(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2)

    return Library(
        lambda x: x.relu(),
        lambda x: x.gelu(),
        lambda x: x.chunk(3, dim=-1),
        layer_norm,
        attention,
        lambda logits, y: logits.sparse_categorical_crossentropy(y),
    )


class Step:
    """Training steps under TinyJit."""

    def __init__(
        self,
        loss: Callable[..., Any],
        weights: dict[str, np.ndarray],
        batches: list[tuple[np.ndarray, ...]],
        optimizer: Callable[[list[Any]], Any] | None,
    ) -> None:
        from tinygrad import Context, Tensor, TinyJit

        self.p = {name: Tensor(array.copy()).realize() for name, array in weights.items()}
        self.batches = [tuple(Tensor(_small(a)).realize() for a in batch) for batch in batches]
        self.next = cycle(self.batches)
        self.loss_of = loss
        self.training = partial(Context, TRAINING=1)
        self.optimizer = None if optimizer is None else optimizer(list(self.p.values()))
        self.jit = TinyJit(self.step)

    def clear(self) -> None:
        for p in self.p.values():
            p.grad = None

    def step(self, *batch: Any) -> Any:
        self.clear()
        loss = self.loss_of(self.p, *batch).backward()
        if self.optimizer is None:
            return loss.realize(*(p.grad for p in self.p.values()))
        return loss.realize(*self.optimizer.schedule_step())

    def __call__(self) -> None:
        with self.training():
            self.jit(*next(self.next)).item()

    def first(self) -> First:
        self.clear()
        loss = self.loss_of(self.p, *self.batches[0]).backward()
        gradients = {name: p.grad.numpy() for name, p in self.p.items()}
        self.clear()
        return First(loss.item(), gradients)

    def loss(self) -> float:
        return self.loss_of(self.p, *self.batches[0]).item()


def _small(array: np.ndarray) -> np.ndarray:
    """Ids in 32 bits, as in its own examples."""
    return array.astype(np.int32) if array.dtype.kind == "i" else array


def decoder(work: Decoder, weights: dict[str, np.ndarray]) -> Step:
    from tinygrad.nn.optim import AdamW

    lib = library()

    def optimizer(parameters: list[Any]) -> Any:
        return AdamW(parameters, LR, BETAS[0], BETAS[1], EPS, DECAY)

    return Step(lambda p, x, y: gpt_loss(lib, work, p, x, y), weights, work.batches(), optimizer)


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Step:
    from tinygrad.nn.optim import SGD

    lib = library()
    return Step(lambda p, x, y: mlp_loss(lib, work, p, x, y), weights, work.batches(), lambda p: SGD(p, LR))


def attention(work: Attention, weights: dict[str, np.ndarray]) -> Step:
    def loss(p: Any, g: Any) -> Any:
        q = p["query"]
        k = p["key"]
        v = p["value"]
        return (q.scaled_dot_product_attention(k, v, is_causal=True) * g).sum()

    return Step(loss, weights, work.batches(), None)
