"""LoRA: low-rank adaptation of a trained model (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language
Models", section 4).

The weights of the model are frozen. A matrix W gets an adapter of two small matrices, which are trained:

    h = W x + alpha / r * B A x        A (r, in), B (out, r)

A is initialized randomly and B with zeros, so that the output is unchanged at first. Merging an adapter adds
alpha / r * B A to W.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

import minigrad as mg
from minigrad import Tensor, nn, no_grad
from minigrad.nn import functional as F
from minigrad.ops.shaping import cat

from ..errors import UserError, check_choice, check_integer
from .attention import MultiHeadAttention
from .encoder_decoder import FeedForward
from .quantized import check_not_quantized, copy_settings, replace_layers

PROJECTIONS = ("q", "k", "v")  # the parts of an attention's stacked matrix
TARGETS = (*PROJECTIONS, "in_proj", "out_proj", "linear1", "linear2", "linear3")
DEFAULT_TARGETS = "q,v"  # of the paper (section 4.2)


class Adapter(nn.Module):
    """The low-rank update alpha / r * B A x of a layer's output."""

    def __init__(self, weight: Tensor, rank: int, alpha: float) -> None:
        """Make an adapter for the matrix `weight` (out, in), with its dtype and device."""
        super().__init__()
        outputs, inputs = weight.shape
        self.factor = alpha / rank
        self.lora_A = nn.Parameter(mg.empty(rank, inputs, dtype=weight.dtype, device=weight.device))
        self.lora_B = nn.Parameter(mg.zeros(outputs, rank, dtype=weight.dtype, device=weight.device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))  # as in peft

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        return F.linear(F.linear(x, self.lora_A), self.lora_B) * self.factor

    def matrix(self) -> Float[Tensor, "E D"]:
        """alpha / r * B A, which merging adds to W."""
        return self.lora_B @ self.lora_A * self.factor


class LoRALinear(nn.Module):
    """A linear layer with an adapter. The weight and bias of the layer keep their names."""

    bias: nn.Parameter | None

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.original = (linear,)  # in a tuple, so that it is not a submodule
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)
        self.adapter = Adapter(linear.weight, rank, alpha)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... E"]:
        return F.linear(x, self.weight, self.bias) + self.adapter(x)

    @no_grad()
    def merged(self) -> nn.Linear:
        """The original linear layer, with the adapter added to its weight."""
        (linear,) = self.original
        self.weight.add_(self.adapter.matrix())
        linear.weight = self.weight
        linear.register_parameter("bias", self.bias)
        return linear


class LoRAAttention(MultiHeadAttention):
    """Attention with an adapter of the stacked matrix, "in_proj", or of its parts "q", "k" and "v"."""

    in_proj_bias: nn.Parameter | None

    def __init__(self, attention: MultiHeadAttention, targets: list[str], rank: int, alpha: float) -> None:
        nn.Module.__init__(self)
        copy_settings(attention, self)
        self.original = (attention,)  # in a tuple, so that it is not a submodule
        self.in_proj_weight = attention.in_proj_weight
        self.register_parameter("in_proj_bias", attention.in_proj_bias)
        self.out_proj = attention.out_proj
        q, both = self.widths
        k = both // 2
        self.parts = {"q": (0, q), "k": (q, q + k), "v": (q + k, q + both), "in_proj": (0, q + both)}
        self.targets = [name for name in (*PROJECTIONS, "in_proj") if name in targets]
        for name in self.targets:
            start, end = self.parts[name]
            rows = Tensor(self.in_proj_weight.array[start:end])
            setattr(self, f"{name}_adapter", Adapter(rows, rank, alpha))

    def adapter(self, name: str) -> Adapter:
        return getattr(self, f"{name}_adapter")

    def in_projection(self, x: Tensor, rows: slice) -> Tensor:
        y = super().in_projection(x, rows)
        for name in self.targets:
            y = y + self.padded(name, x, rows)
        return y

    def padded(self, name: str, x: Tensor, rows: slice) -> Tensor:
        """What the adapter `name` adds to these rows of the projections: zero where it has no rows."""
        start, end = self.parts[name]
        first, last = max(start, rows.start), min(end, rows.stop)
        if first >= last:
            return Tensor(np.zeros((), x.array.dtype)).to(x.device)
        added = self.adapter(name)(x)[..., first - start : last - start]
        zeros = lambda width: Tensor(np.zeros((*x.shape[:-1], width), x.array.dtype)).to(x.device)
        parts = [zeros(first - rows.start), added, zeros(rows.stop - last)]
        return cat([part for part in parts if part.shape[-1]], -1)

    @no_grad()
    def merged(self) -> MultiHeadAttention:
        """The original attention, with the adapters added to its weights."""
        (plain,) = self.original
        for name in self.targets:
            start, end = self.parts[name]
            Tensor(self.in_proj_weight.array[start:end]).add_(self.adapter(name).matrix())
        plain.in_proj_weight = self.in_proj_weight
        plain.register_parameter("in_proj_bias", self.in_proj_bias)
        plain.out_proj = self.out_proj
        return plain


def parse_targets(targets: str) -> list[str]:
    """Split a list such as "q,v" into names. Raise a UserError if names are missing, unknown or overlap."""
    names = [name.strip() for name in targets.split(",") if name.strip()]
    for name in names:
        check_choice("LoRA target", name, TARGETS)
    if not names or ("in_proj" in names and {*PROJECTIONS} & {*names}):
        raise UserError(
            f"lora_targets = {targets!r} is not a list of matrices: in_proj is q, k and v together.\n"
            f"Choose from {', '.join(TARGETS)}, such as {DEFAULT_TARGETS}."
        )
    return names


def add_lora(model: nn.Module, rank: int, alpha: float, targets: str = DEFAULT_TARGETS) -> list[str]:
    """Add an adapter to each matrix that `targets` names. Return the names of the adapters' parameters.

    All other parameters are frozen, except those of a module named `head`.

        add_lora(model, rank=8, alpha=16, targets="q,v")
    """
    check_integer("rank", rank, 1, 2**16)
    names = parse_targets(targets)
    if any(isinstance(module, Adapter) for module in model.modules()):
        raise UserError("the model already has adapters.\nMerge them first: merge_lora(model).")
    check_not_quantized(model, "adapted")
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter_name.startswith("head."))

    def replacement(module: nn.Module) -> nn.Module | None:
        if isinstance(module, MultiHeadAttention):
            if "out_proj" in names:
                module.out_proj = LoRALinear(module.out_proj, rank, alpha)  # type: ignore[assignment]
            stacked = [name for name in names if name in (*PROJECTIONS, "in_proj")]
            return LoRAAttention(module, stacked, rank, alpha) if stacked else None
        if isinstance(module, FeedForward):
            for name in ("linear1", "linear2", "linear3"):
                if name in names and getattr(module, name) is not None:
                    setattr(module, name, LoRALinear(getattr(module, name), rank, alpha))
        return None

    replace_layers(model, replacement)
    found = [name for name, _ in model.named_parameters() if ".lora_" in name]
    if not found:
        raise UserError(f"the model has none of the matrices {targets!r}.\nChoose from {', '.join(TARGETS)}.")
    return found


def merge_lora(model: Any) -> Any:
    """Merge the adapters into the weights, make all parameters trainable, and return the model."""
    for kind in (LoRALinear, LoRAAttention):  # inner layers first
        replace_layers(model, lambda module: module.merged() if isinstance(module, kind) else None)  # noqa: B023
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model
