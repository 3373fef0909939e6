"""Rows of a table."""

from __future__ import annotations

from ...devices import HALF, array_module, float32


def embedding(weight, ids):
    """weight[ids]; a row's gradient is the sum over its uses."""
    shape, xp = weight.shape, array_module(weight)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids are whole numbers, got {ids.dtype}")
    if ids.size and bool(((ids < 0) | (ids >= shape[0])).any()):
        wrong = ids.max() if ids.max() >= shape[0] else ids.min()
        raise IndexError(f"id {int(wrong)} in a table of {shape[0]} rows")

    def gradient(g, needs):
        out = xp.zeros(shape, float32 if g.dtype in HALF else g.dtype)  # atomics know neither
        xp.add.at(out, ids.reshape(-1), g.reshape(-1, shape[1]).astype(out.dtype, copy=False))
        return out.astype(g.dtype, copy=False), None

    return weight[ids], gradient
