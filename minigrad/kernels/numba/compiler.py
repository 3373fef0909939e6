"""numba's `njit` with a cache on disk. If the cache cannot be used, each process compiles the loops again.

numba itself raises an error if it finds no folder for its cache (an installation of another user, a user
without a home folder), or if a cache file is damaged, unreadable, or does not fit on the disk.
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
    # otherwise LLVM aborts the process
    raise ImportError("each name in NUMBA_CPU_FEATURES must begin with + or -")

if "SOURCE_DATE_EPOCH" in os.environ:  # an invalid value raises here, rather than later within an op
    import_module("numpy.f2py")

warned = False  # whether the warning that loops are not cached has been given


def compiled(*signature: Any, **options: Any) -> Callable[[Callable], Any]:
    """Decorate with `njit` and a cache. With a signature the loop is compiled at once."""

    def decorate(function: Callable) -> Any:
        loop: Any = numba.njit(**options)(function)
        try:
            loop._cache = _Cache(function)
        except (RuntimeError, OSError) as error:  # the loop keeps its default cache, which stores nothing
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
            f"compiled kernels cannot be cached, so each start takes half a minute ({reason}): "
            f"set NUMBA_CACHE_DIR to a writable folder"
        )


def _require_home(locator: Any) -> Any:
    """Subclass numba's locator of the home folder's cache to raise an error if there is no home folder.

    Without one, numba itself would use the current folder.
    """

    class HomeLocator(locator):
        def ensure_cache_path(self) -> None:
            if not os.path.isabs(self.get_cache_path()):
                raise OSError("this user has no home folder")
            super().ensure_cache_path()

    return HomeLocator


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [  # noqa: RUF012
        _require_home(locator) if locator.__name__.endswith("UserWideCacheLocator") else locator
        for locator in caching.CompileResultCacheImpl._locator_classes
    ]


class _Cache(caching.FunctionCache):
    _impl_class = _Files

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # a damaged pickle raises errors of any type
            self._write_or_disable(self.flush)  # then the loop is compiled and saved again
            return None

    def save_overload(self, *arguments: Any) -> None:
        self._write_or_disable(super().save_overload, *arguments)

    def _write_or_disable(self, write: Callable, *arguments: Any) -> None:
        try:
            write(*arguments)
        except OSError as error:
            self.disable()
            _warn_once(error)
