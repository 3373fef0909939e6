"""The removable parts of minigrad, and the errors for names that may belong to an absent part."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .core.errors import MissingImportError, MissingNameError
from .core.frames import is_library

# parts that add names; see minigrad/__init__.py
PARTS = ("gradcheck", "graph", "debug", "capture", "breadth", "torch_names")


def absent_parts() -> list[str]:
    """Return the parts that this copy does not have."""
    return [part for part in PARTS if f"{__package__}.{part}" not in sys.modules]


def install_name_errors(tensor: type) -> None:
    """Make errors for missing names list the absent parts."""
    if not absent_parts():
        return
    for path, module in list(sys.modules.items()):
        if f"{path}.".startswith(f"{__package__}."):
            vars(module)["__getattr__"] = _raising_getattr(module.__name__, vars(module).get("__getattr__"))

    def __getattr__(self: Any, name: str) -> NoReturn:
        _raise_absent(type(self).__name__, name)

    tensor.__getattr__ = __getattr__  # type: ignore[attr-defined]


def _raising_getattr(owner: str, before: Callable[[str], NoReturn] | None) -> Callable[[str], NoReturn]:
    """Return a `__getattr__` for a module, which is called after its previous one."""

    def __getattr__(name: str) -> NoReturn:
        if before is not None:
            try:
                before(name)
            except MissingNameError:
                raise
            except AttributeError:  # the name is not in its table
                pass
        _raise_absent(owner, name)

    return __getattr__


def _raise_absent(owner: str, name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(f"{owner!r} has no attribute {name!r}")
    raise_missing_name(
        f"{owner} has no attribute {name!r}.\n"
        f"This copy of minigrad is without {' and '.join(absent_parts())}, to which it may belong."
    )


def raise_missing_name(message: str) -> NoReturn:
    """Raise the error of a module's `__getattr__` for a missing name."""
    frame = sys._getframe(1)
    while is_library[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    # for `from minigrad import name`, Python replaces the message of an AttributeError
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM":
        raise MissingImportError(message)
    raise MissingNameError(message)
