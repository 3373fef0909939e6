"""Names that are loaded when they are first asked for: `more` adds its own to the packages and to Tensor.

What it does not add either raises an AttributeError, of PyTorch's names one that says what to use instead.
`load` imports `more` and returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def load_when_asked(package: ModuleType, load: Callable[[], Any], parts: Mapping[str, str] = {}) -> None:
    """Let a package look for names that it does not have in `parts`, {name: module}, and in `more`."""

    def __getattr__(name: str) -> Any:
        if name in parts:
            module = import_module(parts[name])
            return module if parts[name].endswith(f".{name}") else getattr(module, name)
        if name[:2] == "__" and name != "__all__":  # pytest and inspect ask for names such as __wrapped__
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        more = load()
        name = "listed" if name == "__all__" else name
        return vars(package)[name] if name in vars(package) else more.raise_missing(package, name)

    def __dir__() -> list[str]:  # for editors and notebooks that complete names
        load()
        return sorted({*vars(package), *parts})

    # `more` adds its names to `listed`, so `from minigrad.nn import *` loads it and finds all
    package.listed = vars(package).pop("__all__", [])  # type: ignore[attr-defined]
    package.__getattr__, package.__dir__ = __getattr__, __dir__  # type: ignore[method-assign]


def attributes_when_asked(
    owner: type, path: str, load: Callable[[], Any], names: Container[str] | None = None
) -> None:
    """Let a class, `path` in minigrad, look for attributes that it does not have, all or those named."""

    def __getattr__(self: Any, name: str) -> Any:
        if name[0] != "_" and (names is None or name in names):
            load().raise_if_known(f"{path}.{name}")
        return object.__getattribute__(self, name)  # a method that `more` has bound

    owner.__getattr__ = __getattr__  # type: ignore[attr-defined]
