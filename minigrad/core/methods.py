"""Binds functions as methods, operators and properties of Tensor; core's functions are bound here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .arithmetic import add, astype, clone, multiply, negative, subtract, sum_to, to, true_divide
from .backward import backward
from .hooks import register_hook, retain_grad
from .tensor import Tensor

METHODS: dict[str, Callable[..., Any]] = {}  # every function bound as `x.NAME()`
PROPERTIES: dict[str, Callable[..., Any]] = {}


def bind(
    methods: Mapping[str, Callable[..., Any]], properties: Mapping[str, Callable[..., Any]] = {}
) -> None:
    """Bind functions as methods and properties of Tensor."""
    METHODS.update(methods)
    PROPERTIES.update(properties)
    for name, function in methods.items():
        setattr(Tensor, name, function)
    for name, function in properties.items():
        setattr(Tensor, name, property(function))


def reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reflected operator of a function, such as `__rsub__` of `subtract`."""

    def reflected(y: Any, x: Any) -> Any:
        return function(x, y)

    reflected.__doc__ = function.__doc__
    return reflected


bind(
    {
        "__add__": add,
        "__radd__": add,
        "__sub__": subtract,
        "__rsub__": reflected(subtract),
        "__mul__": multiply,
        "__rmul__": multiply,
        "__truediv__": true_divide,
        "__rtruediv__": reflected(true_divide),
        "__neg__": negative,
        "astype": astype,
        "backward": backward,
        "clone": clone,
        "register_hook": register_hook,
        "retain_grad": retain_grad,
        "to": to,
    }
)
Tensor._sum_to = sum_to
