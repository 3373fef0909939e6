"""A mapping from objects that keeps none of them alive."""

from __future__ import annotations

import weakref
from typing import Any


class ByIdentity:
    """Values of objects, by identity (arrays have no hash): an entry ends with its object."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, thing: Any, value: Any) -> None:
        number, forget = id(thing), lambda _: self.entries.pop(number, None)
        try:
            self.entries[number] = weakref.ref(thing, forget), value
        except TypeError:  # a ufunc has no weak references, and stays
            self.entries[number] = thing, value

    def get(self, thing: Any, default: Any = None) -> Any:
        return self.entries.get(id(thing), (None, default))[1]

    def __contains__(self, thing: Any) -> bool:
        return id(thing) in self.entries

    def clear(self) -> None:
        self.entries.clear()
