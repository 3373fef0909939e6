"""PyTorch, eager: fused attention (scaled_dot_product_attention), fused AdamW, one product for q, k and v.

Modules have the names of minitransformer's, so that its weights can be loaded directly. On a GPU, batches are
moved there beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle, pairwise
from typing import Any

import numpy as np

from ..device_memory import Peak, peak_of_torch
from ..overhead import CONSTANT, START, Chain, run
from ..works import BETAS, DECAY, EPS, LR, MLP, Decoder, First, Phrasebook, Recurrent

LABEL = "torch eager"
PACKAGES = ("torch==2.13.0",)
CANNOT: dict[str, str] = {}


def set_threads(number: int) -> None:
    import torch

    torch.set_num_threads(number)


class Step:
    """Training steps that cycle through the batches."""

    def __init__(
        self,
        model: Any,
        loss: Callable[..., Any],
        batches: list[tuple[np.ndarray, ...]],
        device: str = "cpu",
        precision: str = "float32",
    ) -> None:
        import torch

        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        half = torch.autocast(device, dtype=torch.bfloat16) if precision == "bfloat16" else None
        self.model = model.to(device)
        self.loss_of = loss
        self.eager = loss
        self.autocast: Any = half or nullcontext()
        self.batches = [tuple(torch.from_numpy(array).to(device) for array in batch) for batch in batches]
        self.next = cycle(self.batches)
        self.optimizer = self.optimizer_of(model.parameters())
        self.on_gpu = device != "cpu"

    def optimizer_of(self, parameters: Any) -> Any:
        import torch

        return torch.optim.AdamW(parameters, LR, BETAS, EPS, weight_decay=DECAY, fused=True)

    def forward(self, *batch: Any) -> Any:
        with self.autocast:
            return self.loss_of(*batch)

    def __call__(self) -> None:
        self.forward(*next(self.next)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def wait(self) -> None:
        import torch

        if self.on_gpu:
            torch.cuda.synchronize()

    def peak(self) -> Peak:
        return peak_of_torch(self)

    def first(self) -> First:
        self.model.eval()
        loss = self.forward(*self.batches[0])
        loss.backward()
        gradients = {name: p.grad.cpu().numpy().copy() for name, p in self.model.named_parameters()}
        self.optimizer.zero_grad()
        self.model.train()
        return First(loss.item(), gradients)

    def loss(self) -> float:
        """With the current weights, eager: nothing is compiled for a single call."""
        import torch

        self.model.eval()
        with torch.no_grad(), self.autocast:
            loss = self.eager(*self.batches[0]).item()
        self.model.train()
        return loss


def decoder(work: Decoder, weights: dict[str, np.ndarray], device: str = "cpu") -> Step:
    from torch.nn import functional as F

    from .torch_models import GPT

    model = loaded(GPT(work.config), weights)

    def loss(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).view(-1, work.vocabulary), y.view(-1))

    return Step(model, loss, work.batches(), device, work.precision)


def phrasebook(work: Phrasebook, weights: dict[str, np.ndarray]) -> Step:
    from torch.nn import functional as F

    from .torch_models import Transformer

    model = loaded(Transformer(work.config), weights)

    def loss(source: Any, target_in: Any, target_out: Any) -> Any:
        logits = model(source, target_in).view(-1, work.config.vocab_size)
        return F.cross_entropy(logits, target_out.view(-1), label_smoothing=work.label_smoothing)

    return Step(model, loss, work.batches())


def recurrent(work: Recurrent, weights: dict[str, np.ndarray]) -> Step:
    from torch import nn
    from torch.nn import functional as F

    model = loaded(work.model_of(nn), weights)

    def loss(x: Any, y: Any) -> Any:
        output, _ = model.recurrent(model.embedding(x))
        return F.cross_entropy(model.output(output).reshape(-1, work.vocabulary), y.reshape(-1))

    return Step(model, loss, work.batches())


class PlainStep(Step):
    """A step of plain SGD."""

    def optimizer_of(self, parameters: Any) -> Any:
        import torch

        return torch.optim.SGD(parameters, LR, fused=True)


def mlp(work: MLP, weights: dict[str, np.ndarray]) -> Step:
    from torch import nn

    sizes = [work.inputs, work.width, work.width, work.classes]
    first, second, third = (nn.Linear(a, b) for a, b in pairwise(sizes))
    model = loaded(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), weights)
    return PlainStep(model, lambda x, y: nn.functional.cross_entropy(model(x), y), work.batches())


def loaded(model: Any, weights: dict[str, np.ndarray]) -> Any:
    """The model with exactly these weights."""
    import torch

    model.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
    return model.train()


def chain(of: Chain) -> Callable[[], None]:
    import torch

    return run(of, torch.tensor(START, requires_grad=True), torch.tensor(CONSTANT))
