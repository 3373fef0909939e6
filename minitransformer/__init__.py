"""Transformer models on minigrad, a trainer for them, and ways to look inside them."""

# Names are imported when they are first used: imports take a second, and the command line must handle Ctrl-C
# during that time. `__init__.pyi` lists the names, for this file and for editors.

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_imports = [line for line in _stub.body if isinstance(line, ast.ImportFrom)]
_MODULES = {name.name: "." * line.level + str(line.module) for line in _imports for name in line.names}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(_MODULES[name], __name__), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
