"""Training steps: forward, backward, optimizer, zero_grad, ours and others'; on a GPU, ours also captured.

A table for each work as soon as it is measured, and one with the ratios of all works at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .comparison import OURS, Comparison
from .measuring import spread
from .peers import ON_CPU, missing, peer
from .tables import Table
from .works import row_name


def steps(
    works: Sequence[str],
    peers: Sequence[str] = ON_CPU,
    threads: Iterable[int] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> Iterator[Table]:
    """The tables of each number of threads."""
    for number in threads:
        title = f"a training step, {number} thread{'s' if number > 1 else ''}"
        everything = Table(f"{title}: minigrad / theirs")
        for key in works:
            work = Comparison(key, "cpu", number, clock)
            yield measure_work(work, title, peers, repeats, seconds, kernels)
            if "ours" in work.times:
                everything.rows[row_name(key)] = ratios_of(work, peers)
        if everything.rows:
            yield everything


def steps_on_gpu(
    works: Iterable[str],
    peers: Sequence[str],
    repeats: int = 50,
    seconds: float = 20.0,
    kernels: str | None = None,
    device: str = "cuda",
) -> Iterator[Table]:
    """A table for each work as soon as it is measured, and one with the ratios of all works at the end."""
    everything = Table("training steps on the GPU: ours / torch's, time and peak memory")
    for key in works:
        work = Comparison(key, device)
        yield measure_work(work, "a training step", peers, repeats, seconds, kernels)
        everything.rows[row_name(key)] = against_best(work)
    yield everything


def measure_work(
    work: Comparison, title: str, peers: Sequence[str], repeats: int, seconds: float, kernels: str | None
) -> Table:
    """The table of one work."""
    with work.start([*OURS[work.device], *(name for name in peers if missing(name) is None)], kernels):
        work.warm()
        table = work.table(title, repeats, seconds)
    table.notes += [note for name in peers if (note := missing(name))]
    return table


def ratios_of(work: Comparison, peers: Sequence[str]) -> dict[str, Any]:
    """Ours / each peer, and peak memory beside torch's."""
    present = [name for name in peers if missing(name) is None]
    row = {peer(name).LABEL: work.ratio("ours", name) for name in present}
    return row | {"MiB, torch eager": work.ratio_of_peaks("ours", "torch")}


def against_best(work: Comparison) -> dict[str, Any]:
    """Captured against torch's fastest; eager, and memory, against torch eager."""
    theirs = [name for name in work.times if name not in OURS["cuda"]]
    best = min(theirs, key=lambda name: spread(work.times[name]).median, default=None)
    return {
        "captured / torch's fastest": best and work.ratio("captured", best),
        "fastest": best and peer(best).LABEL,
        "not captured / torch eager": work.ratio("ours", "torch"),
        "MiB, captured / eager": work.ratio_of_peaks("captured", "torch"),
        "MiB, not captured / eager": work.ratio_of_peaks("ours", "torch"),
    }
