"""The shapes of a module's parameters, before memory for them is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from . import init, layers
from .module import Module, Parameter

TOO_LARGE = 2**61  # float32 numbers: more bytes than an address has
one_at_a_time = RLock()  # of the threads that change what modules are made with


class TooLargeError(MemoryError):
    """A parameter of more bytes than an address has."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(f"an array of shape {shape} is too large")
        self.shape = shape


def parameter_shapes(build: Callable[[], Module]) -> list[tuple[int, ...]]:
    """The shapes of the parameters of the module that `build` makes, each parameter once.

    The parameters of nn's layers, and each `nn.Parameter(np.empty(shape))`, take no memory, and functions of
    `nn.init` change nothing. Of a parameter that no machine could hold, only its own shape is given.
    """
    try:
        with one_at_a_time, _shapes_only():
            return [parameter.array.shape for parameter in build().parameters()]
    except MemoryError as error:  # NumPy's knows the shape
        return [getattr(error, "shape", (TOO_LARGE,))]
    except (ValueError, OverflowError) as error:
        if not str(error).startswith(
            ("array is too big", "Maximum allowed dimension", "Python int too large")
        ):
            raise
        return [(TOO_LARGE,)]


def _one_number(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of this shape, all of whose elements are the same number in memory."""
    try:
        return np.lib.stride_tricks.as_strided(np.zeros(1, array.dtype), shape, (0,) * len(shape))
    except (ValueError, OverflowError):
        raise TooLargeError(shape) from None


def _in_this_thread(function: Callable, usual: Callable) -> Callable:
    """`function` in the thread that calls this, and the usual one in others."""
    thread = get_ident()
    return lambda *args, **kwargs: (function if get_ident() == thread else usual)(*args, **kwargs)


@contextmanager
def _shapes_only() -> Iterator[None]:
    """Let this thread make modules without memory; others make theirs as usual."""

    def new_parameter(*shape: int, device: Any = None, dtype: Any = None) -> Tensor:
        return Tensor(_one_number(np.empty(0, np.dtype(dtype or np.float32)), shape))

    def make(parameter: Parameter, data: Any, requires_grad: bool = True) -> None:
        array = data.array if isinstance(data, Tensor) else np.asarray(data)
        initialize(parameter, _one_number(array, array.shape), requires_grad)

    initialize = Parameter.__init__
    changes: list[tuple[Any, str, Any]] = [(layers, "empty", new_parameter), (Parameter, "__init__", make)]
    fillers = [name for name in vars(init) if name.endswith("_") and not name.startswith("_")]
    changes += [(init, name, lambda tensor, *_, **__: tensor) for name in fillers]
    before = [(place, name, getattr(place, name)) for place, name, _ in changes]
    try:
        for (place, name, value), (*_, usual) in zip(changes, before, strict=True):
            setattr(place, name, _in_this_thread(value, usual))
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
