"""numba's `njit`, with a cache on disk that may fail: loops are then compiled again by each process.

numba itself raises an error where it finds no folder for its cache (an installation of another user, a user
without a home), and where a file of the cache is damaged, unreadable, or does not fit on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numba
from numba.core import caching

from ...core.frames import warn

config: Any = numba.config
if config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT turns numba's compiler off")
if not all(name[0] in "+-" for name in (config.CPU_FEATURES or "").split(",") if name):
    raise ImportError("each name of NUMBA_CPU_FEATURES must begin with + or -")  # LLVM would end the process

if "SOURCE_DATE_EPOCH" in os.environ:  # which numba reads later, by an import of its own, within an operation
    import_module("numpy.f2py")

warned = False  # whether the user knows that loops are not cached


def compiled(*signature: Any, **options: Any) -> Callable[[Callable], Any]:
    """A decorator: `njit` with these options, and a cache. With a signature the loop is compiled at once."""

    def decorate(function: Callable) -> Any:
        loop: Any = numba.njit(**options)(function)
        try:
            loop._cache = _Cache(function)
        except (RuntimeError, OSError) as error:  # otherwise its cache stays the one that has nothing
            _warn_once(error)
        for one in signature:
            loop.compile(one)
            loop.disable_compile()
        return loop

    return decorate


def _warn_once(error: Exception) -> None:
    global warned
    if not warned:
        warned = True
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        warn(
            f"compiled kernels cannot be cached, so that each start takes half a minute ({reason}): "
            f"set NUMBA_CACHE_DIR to a folder that you can write to"
        )


def _in_a_home(locator: Any) -> Any:
    """numba's class for caches in the user's home; without a home it would write to the current folder."""

    class InAHome(locator):
        def ensure_cache_path(self) -> None:
            if not os.path.isabs(self.get_cache_path()):
                raise OSError("this user has no home")
            super().ensure_cache_path()

    return InAHome


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [  # noqa: RUF012
        _in_a_home(locator) if locator.__name__.endswith("UserWideCacheLocator") else locator
        for locator in caching.CompileResultCacheImpl._locator_classes
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _Files

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # what a damaged pickle raises can be anything
            self._unless_unwritable(self.flush)  # the loop is compiled and saved again
            return None

    def save_overload(self, *arguments: Any) -> None:
        self._unless_unwritable(super().save_overload, *arguments)

    def _unless_unwritable(self, change: Callable, *arguments: Any) -> None:
        try:
            change(*arguments)
        except OSError as error:
            self.disable()
            _warn_once(error)
