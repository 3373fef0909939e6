"""Bilinear forms, distances, and dropout of channels."""

from __future__ import annotations

from typing import Any

from ...core.errors import OptionError
from ...core.tensor import Tensor
from ...nn import functional as F
from ...nn.function_module import FunctionModule
from ...nn.layers import new_parameter, reset_uniformly
from ...nn.module import Module, Parameter

__all__ = [
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout1d", "Dropout2d", "Dropout3d", "PairwiseDistance",
]  # fmt: skip


class Bilinear(Module):
    """x1ᵀ W x2 + b, W of shape (out_features, in1_features, in2_features)."""

    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features < 1:
            raise OptionError(
                f"in1_features must be at least 1, got {in1_features}.\nPass the size of input1's last axis."
            )
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in1_features, in2_features, device=device, dtype=dtype)
        new_bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", new_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_uniformly(self, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class CosineSimilarity(FunctionModule, function=F.cosine_similarity, inputs=2, shown=""):
    """The cosine of the angle between x1 and x2 along `dim`."""


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class _Dropout(FunctionModule):
    def _configure(self, **settings: Any) -> None:
        F.check_probability(settings["p"])
        super()._configure(**settings)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(_Dropout, function=F.dropout1d, settings="p inplace"):
    """Zero each channel of (N, C, L) with probability p during training."""


class Dropout2d(_Dropout, function=F.dropout2d, settings="p inplace"):
    """Zero each channel of (N, C, H, W) with probability p during training."""


class Dropout3d(_Dropout, function=F.dropout3d, settings="p inplace"):
    """Zero each channel of (N, C, D, H, W) with probability p during training."""


class AlphaDropout(_Dropout, function=F.alpha_dropout, settings="p inplace"):
    """Dropout that keeps mean and variance after selu (Klambauer et al. 2017)."""
