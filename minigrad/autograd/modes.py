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


class _SetGrad:
    """A context manager and decorator that switches recording on or off."""

    value: bool

    def __enter__(self) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, self.value

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self.value):
                return function(*args, **kwargs)

        return wrapped


class no_grad(_SetGrad):
    """Within it (or in a function it decorates) nothing is recorded."""

    value = False


class enable_grad(_SetGrad):
    """Within it operations are recorded again."""

    value = True


class set_grad_enabled:
    """`set_grad_enabled(False)` switches recording off, from now on or within a `with`."""

    def __init__(self, mode: bool) -> None:
        self.before, grad_mode.enabled = grad_mode.enabled, mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        grad_mode.enabled = self.before
