"""minigrad and minitransformer, as their trainer uses them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from minigrad import as_tensor, autocast, capture, cuda, no_grad, optim, set_float32_matmul_precision, tensor
from minigrad.nn import functional as F

from ..device_memory import Peak, peak_of_ours
from ..overhead import CONSTANT, START, Chain, run
from ..works import BETAS, DECAY, EPS, LR, MLP, Decoder, First, Phrasebook, Recurrent

LABEL = "minigrad"
PACKAGES: tuple[str, ...] = ()
CANNOT: dict[str, str] = {}


class Step:
    """Training steps that cycle through the batches."""

    captured: Any = None  # the step as `mg.capture` replays it

    def __init__(self, model: Any, loss: Callable[..., Any], batches: list[tuple[np.ndarray, ...]]) -> None:
        self.model = model
        self.loss_of = loss
        self.batches = batches
        self.next = cycle(batches)
        self.optimizer = self.optimizer_of(list(model.parameters()))

    def capture(self) -> Step:
        """The step, captured from here on; earlier captures are dropped."""
        self.captured = capture(self.train, next(self.model.parameters()).device)
        return self

    def optimizer_of(self, parameters: list[Any]) -> Any:
        return optim.AdamW(parameters, LR, BETAS, EPS, DECAY)

    def train(self, *batch: Any) -> None:
        self.loss_of(*batch).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def __call__(self) -> None:
        (self.captured or self.train)(*next(self.next))

    def wait(self) -> None:
        cuda.synchronize()

    def peak(self) -> Peak:
        """The peak of first steps: a replayed one uses the memory of its capture."""
        if self.captured:
            self.capture()
        return peak_of_ours(self, lambda: self.captured and self.captured.pool)

    def first(self) -> First:
        self.model.eval()
        loss = self.loss_of(*self.batches[0])
        loss.backward()
        gradients = {name: p.grad.numpy().copy() for name, p in self.model.named_parameters()}
        self.optimizer.zero_grad()
        self.model.train()
        return First(loss.item(), gradients)

    def loss(self) -> float:
        self.model.eval()
        with no_grad():
            loss = self.loss_of(*self.batches[0]).item()
        self.model.train()
        return loss


def decoder(work: Decoder, weights: dict[str, np.ndarray], device: str = "cpu") -> Step:
    """Batches are NumPy arrays, which each step copies to the GPU, as in the trainer."""
    model = work.model()
    model.load_state_dict(weights)
    model.to(device)
    set_float32_matmul_precision("high" if work.precision == "tf32" else "highest")

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).reshape(-1, work.vocabulary), y.reshape(-1))

    if work.precision == "bfloat16":
        loss = autocast(dtype="bfloat16")(loss)
    return Step(model, loss, work.batches())


def phrasebook(work: Phrasebook, weights: dict[str, np.ndarray]) -> Step:
    model = work.model()
    smoothing = work.label_smoothing
    model.load_state_dict(weights)

    def loss(source: np.ndarray, target_in: np.ndarray, target_out: np.ndarray) -> Any:
        logits = model(source, target_in).reshape(-1, work.config.vocab_size)
        return F.cross_entropy(logits, target_out.reshape(-1), label_smoothing=smoothing)

    return Step(model, loss, work.batches())


def recurrent(work: Recurrent, weights: dict[str, np.ndarray]) -> Step:
    model: Any = work.model()
    model.load_state_dict(weights)

    def loss(x: Any, y: Any) -> Any:
        output, _ = model.recurrent(model.embedding(x))
        return F.cross_entropy(model.output(output).reshape(-1, work.vocabulary), y.reshape(-1))

    return Step(model, loss, work.batches())


class PlainStep(Step):
    """A step of plain SGD."""

    def optimizer_of(self, parameters: list[Any]) -> Any:
        return optim.SGD(parameters, LR)


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Step:
    model = work.model()
    model.load_state_dict(weights)
    return PlainStep(model, lambda x, y: F.cross_entropy(model(as_tensor(x)), y), work.batches())


def chain(of: Chain) -> Callable[[], None]:
    return run(of, tensor(START, requires_grad=True), tensor(CONSTANT))
