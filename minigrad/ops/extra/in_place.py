"""`x.clamp_(0)`, `x.masked_fill_(mask, 0)`, ...: a function's result written into the tensor itself.

Changes in place stay outside graphs (see `versions`): on what requires a gradient they need `no_grad`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ...creation import rand, randn
from ...devices import array_module
from ...tensor import Tensor
from ..arguments import accept_aliases

NAMES = (
    "abs", "addcdiv", "addcmul", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "exp", "floor",
    "fmod", "index_add", "index_copy", "index_fill", "lerp", "log", "masked_fill", "nan_to_num", "neg",
    "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "scatter", "scatter_add", "sigmoid",
    "sign", "sin", "sqrt", "square", "tanh", "tril", "triu", "trunc",
)  # fmt: skip


def _written(name: str, function: Callable) -> Callable:
    @functools.wraps(function)
    def change(x: Tensor, *args: Any, **settings: Any) -> Tensor:
        value = function(x, *args, **settings)
        copy = array_module(x.array).copyto
        return x.overwrite(name, lambda v: copy(x.array, v, casting="same_kind"), value)

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"{name[:-1]}, written into the tensor itself."
    return change


def methods_in_place(functions: Mapping[str, Callable]) -> dict[str, Callable]:
    """The methods that change a tensor by one of the `functions`, by name."""
    return {f"{name}_": _written(f"{name}_", functions[name]) for name in NAMES}


@accept_aliases
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers, written into the tensor itself."""
    return x.copy_(randn(x.shape, dtype=x.dtype) * std + mean)


@accept_aliases
def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform numbers from `low` to `high`, written into the tensor itself."""
    return x.copy_(rand(x.shape, dtype=x.dtype) * (high - low) + low)
