"""Training steps: forward, backward, AdamW, zero_grad, ours beside a peer's in alternation, each in its
own process.

Before anything is timed both take the same first step: loss and gradients must agree, and, where nothing is
drawn at random, the loss after three steps of the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .children import ChildError
from .machine import idlest
from .measuring import measure, ratios, spread
from .peers import KINDS, PEERS, missing, peer
from .tables import Table
from .worker import Worker
from .works import MLP, Decoder, First, Recurrent, row_name, work_of

UNSTEADY = 1.5  # quartiles of a ratio further apart than this are not to be relied on
# how far two may be apart, relatively, by what products are of. float32: sums in different orders. TF32 and
# bfloat16 round to 11 and to 8 bits (5e-4 and 4e-3 a number): what is rounded, and where, differs from one
# library to the other, and the differences add up from layer to layer
AGREE = {"float32": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}
SETTLE = 0.05  # seconds between turns of more than one thread; OpenBLAS's own spin for about 30 ms


class DifferentWorkError(AssertionError):
    """Two libraries that were to do the same do not."""


def pair(
    name: str,
    works: Sequence[str],
    repeats: int,
    seconds: float,
    threads: int,
    clock: str = "wall",
    kernels: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Ours beside one peer: for each work the milliseconds of both, their ratio, and how far they agree."""
    module, found, cores = peer(name), {}, idlest(threads)
    with Worker("ours", threads, kernels, cores) as ours, Worker(name, threads, kernels, cores) as theirs:
        for key in works:
            if not theirs.prepare(key):
                reason = module.CANNOT.get(key) or module.CANNOT.get(KINDS[type(work_of(key))])
                found[key] = {"cannot": reason or "not written"}
                continue
            ours.prepare(key)
            found[key] = _beside(ours, theirs, key, repeats, seconds, threads, clock)
    return found


def _beside(
    ours: Worker, theirs: Worker, key: str, repeats: int, seconds: float, threads: int, clock: str
) -> dict[str, Any]:
    """One work of both, in turns."""
    differences = compare(ours.first(), theirs.first(), key, peer(theirs.name).LABEL)
    ours.step(3)
    theirs.step(3)
    if isinstance(work_of(key), Decoder | Recurrent | MLP):
        differences["after 3 steps"] = close(ours.loss(), theirs.loss(), key, "loss after 3 steps")
    settle = SETTLE if threads > 1 else 0.0
    times = measure({"ours": ours, theirs.name: theirs}, repeats, seconds, settle, clock)
    return {
        "ours": [1e3 * t for t in spread(times["ours"])],
        "theirs": [1e3 * t for t in spread(times[theirs.name])],
        "ratio": ratios(times["ours"], times[theirs.name]),
        "turns": len(times["ours"]),
        "differences": differences,
    }


def compare(ours: First, theirs: First, key: str, label: str) -> dict[str, float]:
    """How far two first steps differ, relative to the largest of each gradient; an error if too far."""
    if ours.gradients.keys() != theirs.gradients.keys():
        odd = sorted(ours.gradients.keys() ^ theirs.gradients.keys())
        raise DifferentWorkError(
            f"{key}: gradients of {odd[:3]} on one side only.\nGive both the same model."
        )
    worst, where = 0.0, ""
    for name, gradient in ours.gradients.items():
        apart = float(np.abs(gradient - theirs.gradients[name]).max() / np.abs(gradient).max())
        if not apart <= worst:
            worst, where = apart, name
    close(ours.loss, theirs.loss, key, f"first loss, {label}'s")
    if not worst < agree(key):
        raise DifferentWorkError(f"{key}: the gradient of {where} differs by {worst:.1e} from {label}'s.")
    return {"loss": abs(ours.loss - theirs.loss) / abs(ours.loss), "gradients": worst}


def agree(key: str) -> float:
    """How far two that do this work may be apart."""
    work = work_of(key)
    return AGREE[work.precision if isinstance(work, Decoder) else "float32"]


def close(ours: float, theirs: float, key: str, what: str) -> float:
    """How far two losses are apart, relatively; an error if too far."""
    apart = abs(ours - theirs) / abs(ours)
    if not apart < agree(key):
        raise DifferentWorkError(f"{key}: {what}: {theirs:.6f} and ours {ours:.6f}.\nFind what differs.")
    return apart


def steps(
    works: Iterable[str],
    peers: Iterable[str] = PEERS,
    threads: Iterable[int] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> list[Table]:
    """A table for each number of threads."""
    return [_table(list(works), list(peers), n, repeats, seconds, clock, kernels) for n in threads]


def _table(
    works: list[str],
    peers: list[str],
    threads: int,
    repeats: int,
    seconds: float,
    clock: str,
    kernels: str | None,
) -> Table:
    unit = "median ms" if clock == "wall" else "median ms of processor time"
    table = Table(f"a training step, {threads} thread{'s' if threads > 1 else ''}: {unit} [quartiles]")
    for name in peers:
        label = peer(name).LABEL
        note = missing(name)
        if note:
            table.notes.append(note)
            continue
        try:
            found = pair(name, works, repeats, seconds, threads, clock, kernels)
        except ChildError as error:
            if name == "torch":
                raise
            table.notes.append(f"{label} failed: {str(error).splitlines()[-1]}")
            continue
        apart = 0.0
        cannot: dict[str, list[str]] = {}
        for key, values in found.items():
            row = table.rows.setdefault(row_name(key), {"minigrad": None})
            if "cannot" in values:
                cannot.setdefault(values["cannot"], []).append(key)
                row |= {label: None, f"ratio to {label}": None}
                continue
            row["minigrad"] = row["minigrad"] or values["ours"]
            row |= {label: values["theirs"], f"ratio to {label}": values["ratio"]}
            low, _, high = values["ratio"]
            if high > UNSTEADY * low:
                table.notes.append(f"Unsteady: {label} on {key}, ratios' quartiles {low:.2f} and {high:.2f}")
            apart = max(apart, *values["differences"].values())
        table.notes += [f"{label} on {', '.join(keys)}: {reason}" for reason, keys in cannot.items()]
        table.notes.append(f"Losses and gradients of first steps as {label}'s to {apart:.0e}")
    return table
