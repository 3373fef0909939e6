"""Tables that map the names of our parameters to the names of tensors in a file.

A table has an entry for each kind of parameter: {our name: their name}. In both names, `*` stands for the
number of a layer, and `{}` for "weight" or "bias". If more than the name differs, the value is a `Source`.
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
    """The tensors of a file that a parameter is made of, by stacking them along the first axis."""

    names: tuple[str, ...]
    transposed: bool = False  # whether the matrix is stored as (in, out), as in GPT-2's Conv1D
    skip: int = 0  # the number of first rows of the tensor that are not used, as in BART's positions
    shape: tuple[str, ...] = ()  # the tensor's shape, as fields of our configuration; (): our shape

    def their_shapes(
        self, shape: tuple[int, ...], config: Any, widths: tuple[int, ...]
    ) -> list[tuple[int, ...]]:
        """The expected shape of each tensor, for our parameter of this shape.

        `widths` are the numbers of rows of the tensors, if there are several.
        """
        if self.shape:
            return [tuple(int(n) if n.isdecimal() else getattr(config, n) for n in self.shape)]
        if self.transposed:
            return [shape[::-1]]
        return [(rows + self.skip, *shape[1:]) for rows in widths or (shape[0],)]

    def to_ours(self, arrays: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Convert the tensors of a file to our parameter. A transposed matrix is a view, not a copy."""
        (array, *others) = arrays
        if others:
            return np.concatenate(arrays)
        return (array.T if self.transposed else array[self.skip :]).reshape(shape)

    def to_theirs(self, array: np.ndarray, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
        """Convert our parameter to the tensors of a file. Rows that are not used are zero."""
        if self.skip:
            return [np.concatenate([np.zeros((self.skip, *array.shape[1:]), array.dtype), array])]
        if self.transposed:
            return [np.ascontiguousarray(array.T)]
        parts = (
            np.split(array, np.cumsum([shape[0] for shape in shapes])[:-1]) if len(shapes) > 1 else [array]
        )
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def stacked(*names: str) -> Source:
    """A parameter that stacks several tensors, such as the projections of queries, keys and values."""
    return Source(names)


def transposed(name: str) -> Source:
    """A matrix that is stored as (in, out)."""
    return Source((name,), transposed=True)


def without_rows(name: str, skip: int) -> Source:
    """A tensor whose first `skip` rows are not used."""
    return Source((name,), skip=skip)


def reshaped(name: str, *shape: str) -> Source:
    """A tensor that is stored in another shape, which is given as fields of our configuration."""
    return Source((name,), shape=shape)


def find(table: Table, name: str) -> Source | None:
    """The source of our parameter `name`, with the layer's number filled in; None if it has no entry."""
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
