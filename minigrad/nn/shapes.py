"""The shapes of a module's parameters, without allocating memory for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from . import init, layers
from .module import Module, Parameter

TOO_LARGE = 2**61  # elements: their bytes exceed a 64-bit address space
patch_lock = RLock()  # held while Parameter and the initializers are replaced


class TooLargeError(MemoryError):
    """A parameter that is larger than the address space."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(f"an array of shape {shape} is too large")
        self.shape = shape


def parameter_shapes(build: Callable[[], Module]) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters of the module that `build` makes, each parameter once.

    The layers of `nn`, and `nn.Parameter(np.empty(shape))`, allocate no memory meanwhile, and the functions
    of `nn.init` do nothing. If a parameter is larger than the address space, only its shape is returned.
    """
    try:
        with shapes_only():
            return [parameter.array.shape for parameter in build().parameters()]
    except MemoryError as error:  # NumPy's has the shape
        return [getattr(error, "shape", (TOO_LARGE,))]
    except (ValueError, OverflowError) as error:
        if not str(error).startswith(
            ("array is too big", "Maximum allowed dimension", "Python int too large")
        ):
            raise
        return [(TOO_LARGE,)]


def _broadcast_zero(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of this shape and the dtype of `array`, all of whose elements share one zero."""
    try:
        return np.lib.stride_tricks.as_strided(np.zeros(1, array.dtype), shape, (0,) * len(shape))
    except (ValueError, OverflowError):
        raise TooLargeError(shape) from None


def _in_this_thread(function: Callable, usual: Callable) -> Callable:
    """Return a function that calls `function` in this thread and `usual` in others."""
    thread = get_ident()
    return lambda *args, **kwargs: (function if get_ident() == thread else usual)(*args, **kwargs)


@contextmanager
def shapes_only() -> Iterator[None]:
    """Let this thread make modules without allocating parameters; other threads are not affected.

    The parameters have their shapes, but no numbers: load_state_dict(..., assign=True) gives them some.
    """
    with patch_lock, _patched():
        yield


@contextmanager
def _patched() -> Iterator[None]:

    def new_parameter(*shape: int, device: Any = None, dtype: Any = None) -> Tensor:
        return Tensor(_broadcast_zero(np.empty(0, np.dtype(dtype or np.float32)), shape))

    def make(parameter: Parameter, data: Any, requires_grad: bool = True) -> None:
        array = data.array if isinstance(data, Tensor) else np.asarray(data)
        initialize(parameter, _broadcast_zero(array, array.shape), requires_grad)

    initialize = Parameter.__init__
    changes: list[tuple[Any, str, Any]] = [(layers, "empty", new_parameter), (Parameter, "__init__", make)]
    fillers = [name for name in vars(init) if name.endswith("_") and not name.startswith("_")]
    changes += [(init, name, lambda tensor, *_, **__: tensor) for name in fillers]
    originals = [getattr(owner, name) for owner, name, _ in changes]
    try:
        for (owner, name, value), usual in zip(changes, originals, strict=True):
            setattr(owner, name, _in_this_thread(value, usual))
        yield
    finally:
        for (owner, name, _), usual in zip(changes, originals, strict=True):
            setattr(owner, name, usual)
