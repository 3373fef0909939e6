"""The layers that a Transformer needs: functions of `functional` with the parameters that they need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..modes import no_grad
from ..tensor import Tensor
from . import init
from .functional import core as F
from .module import Module, Parameter

__all__ = ["Dropout", "Embedding", "Identity", "LayerNorm", "Linear", "RMSNorm"]


def _empty(*shape: int) -> Parameter:
    return Parameter(np.empty(shape, np.float32))


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class Linear(Module):
    """x Wᵀ + b, W of shape (out_features, in_features); both start uniform on ±1/sqrt(in_features)."""

    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _empty(out_features, in_features)
        self.register_parameter("bias", _empty(out_features) if bias else None)
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table of `num_embeddings` vectors of `embedding_dim` numbers, standard normal at first.

    Row `padding_idx` is zeros at first and gets no gradient.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings)
        self.weight = _empty(num_embeddings, embedding_dim)
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """In training, zero each element with probability p (Srivastava et al. 2014)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        F.check_probability(p)
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        output = F.dropout(input, self.p)
        return input.copy_(output) if self.inplace and output is not input else output

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class LayerNorm(Module):
    """Layer normalization over the last axes, with a learned scale and shift (Ba, Kiros and Hinton 2016)."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        ones, zeros = np.ones(self.normalized_shape, np.float32), np.zeros(self.normalized_shape, np.float32)
        self.register_parameter("weight", Parameter(ones) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(zeros) if elementwise_affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last axes divided by their root mean square, with a learned scale (Zhang and Sennrich 2019)."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        ones = np.ones(self.normalized_shape, np.float32)
        self.register_parameter("weight", Parameter(ones) if elementwise_affine else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Identity(Module):
    """Its input, unchanged; it takes any arguments and ignores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
