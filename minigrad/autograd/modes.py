"""Whether operations are recorded: on, unless one says otherwise."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any


class _GradMode(threading.local):
    enabled = True


grad_mode = _GradMode()


def is_grad_enabled() -> bool:
    return grad_mode.enabled


class set_grad_enabled:
    """`set_grad_enabled(False)` switches recording off: from now on, in a `with`, or in what it decorates."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.before, grad_mode.enabled = grad_mode.enabled, mode

    def __enter__(self) -> None:
        grad_mode.enabled = self.mode

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        grad_mode.enabled = self.before

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.mode):
                return function(*args, **kwargs)

        return wrapped


class _Within:
    """A context manager, and decorator with or without parentheses, that switches recording on or off."""

    mode: bool

    def __new__(cls, function: Callable | None = None) -> Any:
        instance = super().__new__(cls)
        return instance if function is None else instance(function)

    def __enter__(self) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, self.mode

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return function(*args, **kwargs)

        return wrapped


class no_grad(_Within):
    """Within it (or in a function it decorates) nothing is recorded."""

    mode = False


class enable_grad(_Within):
    """Within it operations are recorded again."""

    mode = True
