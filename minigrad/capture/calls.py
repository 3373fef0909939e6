"""What a plan is made of: calls, which write into arrays that they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ..random import Key
from ..versions import root


class Call(NamedTuple):
    """One call of a plan: `function(*arrays_and_numbers, **settings)` writes into some of its arrays."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    settings: dict[str, Any]
    name: str
    source: tuple[CodeType, int] | None = None  # the user's line

    @property
    def fixed(self) -> tuple[np.ndarray, ...]:
        """Arrays that gradient functions refer to, which therefore cannot move."""
        return tuple(x for box in self.args if isinstance(box, Box) for x in box.fixed)

    @property
    def writes(self) -> set[int] | None:
        """The ids of the memory that it writes; None if that is not known."""
        if not isinstance(self.function, np.ufunc) and self.function is not np.dot:
            return None
        given = self.settings.get("out")
        outs = given if type(given) is tuple else (given,) if given is not None else self.args[-1:]
        return {id(root(x)) for x in outs}

    def run(self) -> None:
        self.function(*self.args, **self.settings)

    def arrays(self) -> Iterator[np.ndarray]:
        """Every array among the arguments."""
        return arrays_in([self.args, self.settings])

    def with_arrays(self, function: Callable[[np.ndarray], np.ndarray]) -> Call:
        """The call with what a function gives for each array among the arguments."""
        return self._replace(
            args=map_arrays(function, self.args), settings=map_arrays(function, self.settings)
        )

    def __str__(self) -> str:
        return f"{self.name:24} " + " ".join(f"{x.dtype.char}{list(x.shape)}" for x in self.arrays())


def arrays_in(x: Any) -> Iterator[np.ndarray]:
    """Every array in tuples, lists, dictionaries and boxes."""
    if isinstance(x, np.ndarray):
        yield x
    else:
        parts = x.arrays if isinstance(x, Box) else x.values() if isinstance(x, dict) else x
        for part in parts if isinstance(x, Box | dict | tuple | list) else ():
            yield from arrays_in(part)


def map_arrays(function: Callable[[np.ndarray], np.ndarray], x: Any) -> Any:
    """What a function gives for each array in tuples, lists and dictionaries."""
    if isinstance(x, np.ndarray):
        return function(x)
    if type(x) is tuple or type(x) is list:
        return type(x)([map_arrays(function, part) for part in x])
    if type(x) is dict:
        return {name: map_arrays(function, part) for name, part in x.items()}
    return x


class Box:
    """A value that calls write and read, and the arrays that it refers to."""

    arrays: tuple[np.ndarray, ...] = ()
    fixed: tuple[np.ndarray, ...] = ()

    def __init__(self, value: Any) -> None:
        self.value = value


class DrawnKey(Key):
    """The key of a draw that every replay makes anew: `current()` is that of this replay."""

    current: Callable[[], Key]
