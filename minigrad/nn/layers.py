"""Layers: the functions of `functional` with the parameters that they need."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, Parameter

__all__ = [
    "AlphaDropout", "Bilinear", "CosineSimilarity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "Embedding", "Identity", "Linear", "PairwiseDistance",
]  # fmt: skip


def _new(*shape: int) -> Parameter:
    return Parameter(np.empty(shape, np.float32))


class Linear(Module):
    """x Wᵀ + b, W of shape (out_features, in_features); both begin uniform on ±1/sqrt(in_features)."""

    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _new(out_features, in_features)
        self.register_parameter("bias", _new(out_features) if bias else None)
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """x1ᵀ W x2 + b, W of shape (out_features, in1_features, in2_features)."""

    bias: Parameter | None

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = _new(out_features, in1_features, in2_features)
        self.register_parameter("bias", _new(out_features) if bias else None)
        bound = 1 / math.sqrt(in1_features) if in1_features else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class CosineSimilarity(Module):
    """The cosine of the angle between x1 and x2 along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of x1 - x2 along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Embedding(Module):
    """A table of `num_embeddings` vectors of `embedding_dim` numbers, standard normal at first.

    Row `padding_idx` is zeros at first and gets no gradient.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings)
        self.weight = _new(num_embeddings, embedding_dim)
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Identity(Module):
    """What comes in; what it is made with means nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class _Dropout(Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        F.check_probability(p)
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout(_Dropout):
    """In training, zero each element with probability p (Srivastava et al. 2014)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p) if self.training else input


class Dropout1d(_Dropout):
    """In training, zero each channel of (N, C, L) with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training)


class Dropout2d(_Dropout):
    """In training, zero each channel of (N, C, H, W) with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training)


class Dropout3d(_Dropout):
    """In training, zero each channel of (N, C, D, H, W) with probability p."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance after selu (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)
