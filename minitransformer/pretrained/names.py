"""Tables of names: which tensors of a file each of our parameters is made of, for reading and for writing.

A table has a line for each kind of parameter: {our name: their name}. In both, `*` is the number of a layer,
and `{}` is "weight" or "bias". Where more than a name differs, the value is a `Source`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

Table = Mapping[str, "str | Source"]


@dataclass(frozen=True)
class Source:
    """The tensors of a file that a parameter is made of, stacked along the first axis."""

    names: tuple[str, ...]
    transposed: bool = False  # matrices have (in, out), as in GPT-2's Conv1D
    skip: int = 0  # first rows of their table that are never read, as in BART's positions
    shape: tuple[str, ...] = ()  # their shape, as fields of our configuration; () is our shape

    def their_shapes(
        self, shape: tuple[int, ...], config: Any, widths: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """The shape of each tensor, for a parameter of ours; `widths` are the rows of each."""
        if self.shape:
            return [tuple(int(n) if n.isdecimal() else getattr(config, n) for n in self.shape)]
        if self.transposed:
            return [shape[::-1]]
        return [(rows + self.skip, *shape[1:]) for rows in widths or (shape[0],)]

    def to_ours(self, arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Our parameter, of these tensors. A transposed one is a view: copies of all would take too long."""
        (array, *others) = arrays
        if others:
            return np.concatenate(arrays)
        return (array.T if self.transposed else array[self.skip :]).reshape(shape)

    def to_theirs(self, array: np.ndarray, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        """The tensors of a file, of our parameter. Rows that are never read are zero."""
        if self.skip:
            return [np.concatenate([np.zeros((self.skip, *array.shape[1:]), array.dtype), array])]
        if self.transposed:
            return [np.ascontiguousarray(array.T)]
        parts = (
            np.split(array, np.cumsum([shape[0] for shape in shapes])[:-1]) if len(shapes) > 1 else [array]
        )
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def stacked(*names: str) -> Source:
    """The rows of several tensors, such as the projections of queries, keys and values."""
    return Source(names)


def transposed(name: str) -> Source:
    """A matrix stored as (in, out)."""
    return Source((name,), transposed=True)


def without_rows(name: str, skip: int) -> Source:
    """A table without its first rows."""
    return Source((name,), skip=skip)


def reshaped(name: str, *shape: str) -> Source:
    """The same numbers in another shape, given as fields of our configuration."""
    return Source((name,), shape=shape)


def find(table: Table, name: str) -> Source | None:
    """What our parameter is made of, with the numbers of layers filled in; None if the table has no line."""
    for ours, theirs in table.items():
        if match := _pattern(ours).fullmatch(name):
            source = Source((theirs,)) if isinstance(theirs, str) else theirs
            return replace(source, names=tuple(_fill(each, match) for each in source.names))
    return None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    pattern = re.escape(name).replace(r"\*", r"(?P<layer>\d+)").replace(r"\{\}", "(?P<kind>weight|bias)")
    return re.compile(pattern)


def _fill(name: str, match: re.Match[str]) -> str:
    groups = match.groupdict()
    return name.replace("*", groups.get("layer", "*")).replace("{}", groups.get("kind", "{}"))
