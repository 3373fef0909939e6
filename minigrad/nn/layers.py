"""The layers of a Transformer: modules that hold the parameters of functions in `functional`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..core.modes import no_grad
from ..core.tensor import Tensor, as_tensor
from ..ops.creation import empty
from . import init
from .functional import core as F
from .module import Module, Parameter

__all__ = ["Dropout", "Embedding", "Identity", "LayerNorm", "Linear", "RMSNorm"]


def new_parameter(*shape: int, device: str | None = None, dtype: Any = None) -> Parameter:
    """Make an uninitialized parameter, float32 on the CPU by default."""
    return Parameter(empty(*shape, device=device, dtype=dtype))


def reset_uniformly(module: Module, inputs: int) -> None:
    """Fill the parameters of the module itself uniformly from ±1/sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    for parameter in module.parameters(recurse=False):
        init.uniform_(parameter, -bound, bound)


def reset_scale_and_shift(module: Module) -> None:
    """Set the module's `weight` to ones and its `bias` to zeros."""
    for name, parameter in module.named_parameters(recurse=False):
        init.constant_(parameter, name == "weight")


def _as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class Linear(Module):
    """x Wᵀ + b: (..., in_features) -> (..., out_features), with W (out_features, in_features).

    W and b are initialized uniformly from ±1/sqrt(in_features).

    >>> layer = nn.Linear(4, 3)
    >>> layer(mg.ones(2, 4)).shape
    (2, 3)
    >>> layer.weight.shape, layer.bias.shape
    ((3, 4), (3,))
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in_features, device=device, dtype=dtype)
        new_bias = new_parameter(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", new_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_uniformly(self, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """A lookup table of `num_embeddings` vectors of size `embedding_dim`, initialized from N(0, 1).

    Row `padding_idx` is initialized to zeros and gets no gradient. If `max_norm` is given, each looked-up row
    with a larger norm (of order `norm_type`) is scaled down to it in place.

    >>> embedding = nn.Embedding(10, 4, padding_idx=0)
    >>> embedding(mg.tensor([[5, 7, 0]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.weight = new_parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> Embedding:
        """Make an embedding from a table (V, D), which is only trained with `freeze=False`."""
        embeddings = as_tensor(embeddings)
        if embeddings.ndim != 2:
            raise ShapeError(f"embeddings must have shape (V, D), got {embeddings.shape}.\nPass a matrix.")
        vocabulary, width = embeddings.shape
        layer = cls(vocabulary, width, padding_idx, max_norm, norm_type)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type)

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, usual in (("padding_idx", None), ("max_norm", None), ("norm_type", 2)):
            if getattr(self, name) != usual:
                shown += f", {name}={getattr(self, name)}"
        return shown


class Dropout(Module):
    """In training, zero each element with probability p, else divide it by 1 - p (Srivastava et al. 2014).

    >>> dropout = nn.Dropout(0.5)
    >>> dropout.eval()(mg.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        F.check_probability(p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input
        output = F.dropout(input, self.p)
        return input.copy_(output) if self.inplace and output is not input else output

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class LayerNorm(Module):
    """Layer normalization over the last axes, with a learned scale and shift (Ba, Kiros and Hinton 2016).

    >>> norm = nn.LayerNorm(3)
    >>> norm(mg.tensor([1.0, 2.0, 3.0]))
    tensor([-1.2247,  0.0000,  1.2247], grad_fn=<layer_norm>)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, is_learned in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            new = new_parameter(*self.normalized_shape, device=device, dtype=dtype) if is_learned else None
            self.register_parameter(name, new)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_scale_and_shift(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Root mean square normalization over the last axes, with a learned scale (Zhang and Sennrich 2019)."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        new = new_parameter(*self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", new if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_scale_and_shift(self)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Identity(Module):
    """Return the input unchanged; the constructor ignores its arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
