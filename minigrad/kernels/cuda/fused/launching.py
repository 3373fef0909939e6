"""Compile CUDA sources with CuPy for a dtype, cache them, and launch them on its current stream."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.random import Key
from ....ops.draws import drop_threshold, keep_scale

SOURCES = Path(__file__).parents[1] / "sources"
SCALARS = {"float32": "float", "float64": "double", "float16": "float16", "bfloat16": "bfloat16"}
WARP_ROW = 1024  # the longest row that a single warp computes
PARTS = 64  # the largest number of partial sums in a sum over rows
MANY = 64  # arrays per launch, see many.cuh
CHUNK = 4096  # elements per block


def supports(*arrays: Any) -> bool:
    """Whether the arrays are not empty and share a supported floating dtype; None is ignored."""
    present = [x for x in arrays if x is not None]
    return all(x.dtype == present[0].dtype and x.size for x in present) and present[0].dtype.name in SCALARS


def accumulator(dtype: Any) -> np.dtype:
    """The dtype of statistics and sums of a `dtype`: float64 for float64, else float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


@lru_cache(maxsize=64)
def code(source: str) -> str:
    """The text of a source file, with each include inserted once."""
    seen: set[str] = set()

    def text(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        lines = (SOURCES / name).read_text(encoding="utf-8").replace("#pragma once\n", "\n")
        return f'#line 1 "{name}"\n' + re.sub(
            r'#include "(.+)"', lambda found: text(found[1]) + f'#line 1 "{name}"', lines
        )

    return text(f"{source}.cu")


def options(dtype: Any, **values: int | str) -> tuple[str, ...]:
    """The compiler options for a dtype, with further macros in `values`."""
    defined = {
        "SCALAR": SCALARS[dtype.name],
        "ACCUMULATOR": SCALARS[accumulator(dtype).name],
        **values,
    }
    return ("--std=c++17", *(f"-D{name}={value}" for name, value in defined.items()))


@lru_cache(maxsize=512)
def _function(library: Any, source: str, name: str, dtype: Any, values: tuple) -> Any:
    return _module(library, source, dtype, values).get_function(name)


@lru_cache(maxsize=128)
def _module(library: Any, source: str, dtype: Any, values: tuple) -> Any:
    return library.RawModule(code=code(source), options=options(dtype, **dict(values)))


def kernel(x: Any, source: str, name: str, **values: int | str) -> Any:
    """The kernel `name` of a source, for the dtype of x: call it with (grid, block, arguments)."""
    return _function(array_module(x), source, name, x.dtype, tuple(values.items()))


def contiguous(x: Any) -> Any:
    """x, or a contiguous copy."""
    return x if x is None or x.flags.c_contiguous else array_module(x).ascontiguousarray(x)


def over_rows(rows: int, size: int) -> tuple[tuple, tuple]:
    """Grid and block with a warp for each row, or a block for each long row."""
    if size <= WARP_ROW:
        return (-(-rows // 4),), (32, 4)
    return (rows,), (256 if size <= 4096 else 1024,)


def over_elements(number: int) -> tuple[tuple, tuple]:
    """Grid and block of a grid-stride loop over the elements."""
    return (min(-(-number // 256), 1 << 16),), (256,)


def over_columns(rows: int, size: int) -> tuple[tuple, tuple]:
    """Grid and block of a sum over rows; the grid's second number is the number of partial sums."""
    return (-(-size // 128), min(-(-rows // 64), PARTS)), (32, 8)


def sum_of_parts(parts: Any, parameter: Any) -> Any:
    """Add up partial sums, the last stage of a sum over rows, in the shape and dtype of a parameter."""
    out = array_module(parameter).empty(parameter.shape, parameter.dtype)
    number, size = parts.shape
    kernel(parameter, "linear", "sum_of_parts")((-(-size // 256),), (256,), (parts, out, number, size))
    return out


# ---------------------------------------------------------------- structs, passed by value


def struct(dtype: Any, *names: str) -> np.dtype:
    """The dtype of a C struct whose fields share one dtype; CuPy passes it as an array of one element."""
    return np.dtype([(name, dtype) for name in names])


WORDS = "seed", "stream", "step", "call", "counters", "first", "threshold"
DRAW = np.dtype([*((word, np.uint64) for word in WORDS), ("scale", np.float64), ("bits", np.uint64)])
HEADS = struct("int64", "data", "batch", "head", "row")
MASK = struct("int64", "data", "batch", "head", "row", "column")
ARRAYS = np.dtype(
    [("source", np.uint64, MANY), ("target", np.uint64, MANY), ("size", np.int64, MANY),
     ("chunk", np.int64, MANY), ("number", np.int64)]
)  # fmt: skip
NO_DRAW, NO_MASK = np.array([(*[0] * 7, 1.0, 16)], DRAW), np.zeros(1, MASK)


def draw(key: Key | None, shape: tuple[int, ...], p: float) -> np.ndarray:
    """A kernel's `Draw` argument, which draws the same as `ops.draws.keep_mask(key, shape, p)`."""
    if not p or key is None:
        return NO_DRAW
    first = key.row * (math.prod(shape) // shape[0] if shape and shape[0] else 0)
    bits, threshold = drop_threshold(p)
    words = key.seed, key.stream, *key.counters, first, threshold
    return np.array([(*words, keep_scale(p), bits)], DRAW)


def heads(x: Any) -> np.ndarray:
    """A kernel's `Heads` argument: an array (batch, heads, rows, columns), contiguous in the columns."""
    return np.array([(x.data.ptr, *(step // x.itemsize for step in x.strides[:3]))], HEADS)


def mask_argument(mask: Any) -> np.ndarray:
    """A kernel's `Mask` argument: a boolean array (batch, heads, rows, columns), or None."""
    return NO_MASK if mask is None else np.array([(mask.data.ptr, *mask.strides)], MASK)


def launches(sources: list[Any], targets: list[int] | None = None) -> Iterator[tuple[np.ndarray, int]]:
    """Yield the `Many` argument and the number of blocks of each launch over many contiguous arrays.

    `targets` are addresses to write to, one for each array.
    """
    destinations = targets or [0] * len(sources)
    pairs = [pair for pair in zip(sources, destinations, strict=True) if pair[0].size]
    for first in range(0, len(pairs), MANY):
        arrays, addresses = zip(*pairs[first : first + MANY], strict=True)
        blocks = [-(-a.size // CHUNK) for a in arrays]
        many = np.zeros(1, ARRAYS)
        many["number"] = len(arrays)
        for name, values in (
            ("source", [a.data.ptr for a in arrays]),
            ("target", addresses),
            ("size", [a.size for a in arrays]),
            ("chunk", [0, *accumulate(blocks[:-1])]),
        ):
            many[name][0, : len(arrays)] = values
        yield many, sum(blocks)
