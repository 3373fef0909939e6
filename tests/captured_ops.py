"""Every op captured on the CPU against the op as it is, in every bit of values and gradients.

Each sample of its record is called with other numbers each time: first in the same order, then rolled.

    python -m tests.captured_ops [--only NAME] [--dtype bfloat16] [--readable]

With --readable composite operations run by their definitions.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

import minigrad as mg
from minigrad.capture.recorder import same_bits
from minigrad.errors import CaptureError, MinigradError
from minigrad.gradcheck.every_op import as_function, floating, samples_of
from minigrad.ops.op import registry
from minigrad.tensor import Tensor

# ops whose Python looks at the numbers, or whose result has a shape that depends on them
REFUSED = {
    "allclose", "argwhere", "bincount", "cummax", "cummin", "equal", "getitem", "histc", "histogram",
    "index_reduce", "masked_scatter", "masked_select", "matrix_exp", "matrix_rank", "mode",
    "multilabel_margin_loss", "nonzero", "one_hot", "repeat_interleave", "scatter_reduce", "unique",
    "unique_consecutive",
}  # fmt: skip
# by what the numbers are multiplied in each call, and by how many places they are rolled: what a step were to
# keep of its first calls (an order, an index, a mask) is another in the last
FACTORS, ROLLS = (1.0, 0.9, 0.8, 0.95, 0.85, 0.9, 1.0), (0, 0, 0, 0, 0, 1, 2)


def cases(only: str = "") -> list[tuple[str, Any, Any]]:
    """(name, record, sample) of each sample of every op of the library."""
    return [
        (f"{name}-{i}", record, sample)
        for name, record in sorted(registry.items())
        if record.source.__module__.startswith(("minigrad.", "minitransformer.")) and only in name
        for i, sample in enumerate(samples_of(record))
    ]


def step_of(function: Any) -> Any:
    """Values and gradients of a function of tensors, at numbers that are arguments."""

    def step(*inputs: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        given = [x.detach() for x in inputs]
        for x in given:
            x.requires_grad_(x.is_floating_point())
        outs = floating(function(*given))
        wanted = [x for x in given if x.requires_grad]
        through = [out for out in outs if out.requires_grad]
        if not through or not wanted:
            return outs, []
        found = mg.autograd.grad(sum(out.sum() for out in through), wanted, allow_unused=True)
        return outs, [x for x in found if x is not None]

    return step


def difference(record: Any, sample: Any, dtype: str = "") -> str:
    """What is wrong with an op captured, of floating numbers of this dtype; "" if nothing is."""
    function, inputs = as_function(record, sample)
    arrays = [np.asarray(x.numpy()) for x in inputs]
    of_dtype = lambda x: x.to(dtype) if dtype and x.is_floating_point() else x
    step = step_of(lambda *inputs: function(*map(of_dtype, inputs)))
    captured = mg.capture(step, "cpu")
    for number, (factor, roll) in enumerate(zip(FACTORS, ROLLS, strict=True)):
        now = [np.asarray(a * a.dtype.type(factor)) if a.dtype.kind == "f" else a for a in arrays]
        now = [np.roll(a, roll) for a in now]
        mg.manual_seed(0)
        with np.errstate(all="ignore"):
            try:
                expected = step(*map(mg.tensor, now))
            except MinigradError:
                return ""  # numbers that the op refuses
            mg.manual_seed(0)
            try:
                found = captured(*now)
            except CaptureError as error:
                return f"refused: {error}".split("\n")[0]
        for one, other in zip(expected, found, strict=True):
            for x, y in zip(one, other, strict=True):
                if not same_bits(x.array, y.array):
                    return f"call {number}: {x.array.reshape(-1)[:3]} became {y.array.reshape(-1)[:3]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the names of the ops")
    parser.add_argument("--dtype", default="", help="of floating numbers; those of the samples, if not given")
    parser.add_argument("--readable", action="store_true", help="by the operations' definitions")
    options = parser.parse_args()
    mg.fused(not options.readable)
    all_cases = cases(options.only)
    wrong, refused, listed = 0, 0, {name.rpartition("-")[0] for name, *_ in all_cases} & REFUSED
    for name, record, sample in all_cases:
        try:
            said = difference(record, sample, options.dtype)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said.startswith("refused") and name.rpartition("-")[0] in REFUSED:
            refused += 1
            listed.discard(name.rpartition("-")[0])
        elif said:
            wrong += 1
            print(f"{name}: {said}")
    print(f"{len(all_cases)} samples: {refused} refused as listed, {wrong} wrong")
    if listed:
        print(f"not refused any more: {', '.join(sorted(listed))}. Remove them from REFUSED.")
    return int(wrong > 0 or bool(listed))


if __name__ == "__main__":
    sys.exit(main())
