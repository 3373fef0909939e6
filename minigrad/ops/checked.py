"""Argument checks for public functions, constructors and methods that are not ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, TypeVar

from ..core.argument_checks import FLAG, SETTING, Checks, Kind
from ..core.error_context import FOREIGN_ERRORS, add_context, raise_with_context, raised_by_library
from ..core.errors import MinigradError

F = TypeVar("F", bound=Callable)


def checked(function: F, flag: Kind = FLAG) -> F:
    """Decorate a function to check the types of its arguments, and to add context to NumPy's errors."""
    name = function.__name__
    checks_of = cache(lambda: Checks(function, flag))  # made when first used

    def named(args: tuple) -> str:
        return type(args[0]).__name__ if name == "__init__" else name

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        checks = checks_of()
        is_method = checks.names[:1] == ("self",)
        try:
            checks.check(args, settings)
        except MinigradError as error:
            add_context(error, named(args), args[is_method:], settings)
            raise
        try:
            return function(*args, **settings)
        except MinigradError as error:  # it has context already
            checks.check_rest(name, args, error)
            raise
        except FOREIGN_ERRORS as error:
            if raised_by_library(error):
                raise_with_context(named(args), args[is_method:], settings, error, function)
            raise

    return call  # type: ignore[return-value]


def check_all(
    namespace: dict[str, Any], names: Iterable[str] = (), wrap: Callable[[Callable], Callable] = checked
) -> None:
    """Replace functions in a module's globals() with checked ones, except ops, which check themselves.

    `names` are the functions to replace; by default, all public ones that the module defines.
    """
    for name in tuple(names) or [name for name in namespace if not name.startswith("_")]:
        function = namespace[name]
        defined = names or getattr(function, "__module__", "") == namespace["__name__"]
        if inspect.isfunction(function) and defined and not hasattr(function, "op"):
            namespace[name] = wrap(function)


def check_constructor(cls: type) -> None:
    """Check the constructor arguments of a library class; a user's class is unchanged."""
    if cls.__module__.startswith("minigrad.") and "__init__" in vars(cls):
        cls.__init__ = checked(cls.__init__, SETTING)  # type: ignore[misc]


def check_methods(cls: type, names: Iterable[str]) -> None:
    """Check the arguments of methods of a class."""
    for name in names:
        setattr(cls, name, checked(vars(cls)[name]))
