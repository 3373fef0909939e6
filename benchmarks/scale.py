"""How time and peak memory of a training step grow with length, width, layers, vocabulary and batch.

One size at a time is changed from `nano`'s; lengths are for attention alone and for a model with one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .comparison import Comparison
from .measuring import spread
from .peers import missing, peer
from .tables import Table

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
AXES: dict[str, dict[int, str]] = {  # size -> work
    "attention": {n: f"attention H4 d32 T{n} B1" for n in LENGTHS},
    "length": {n: f"L1 H4 d128 T{n} B1 V65" for n in LENGTHS},
    "width": {n: f"L4 H4 d{n} T64 B12 V65" for n in (32, 64, 128, 256, 512, 1024)},
    "layers": {n: f"L{n} H4 d128 T64 B12 V65" for n in (1, 2, 4, 8, 16)},
    "vocabulary": {n: f"L4 H4 d128 T64 B12 V{n}" for n in (64, 512, 4096, 32768)},
    "batch": {n: f"L4 H4 d128 T64 B{n} V65" for n in (1, 4, 16, 64)},
}

CHANGED = {
    "attention": "T, attention alone",
    "length": "T, one layer",
    "width": "d",
    "layers": "layers",
    "vocabulary": "V",
    "batch": "B",
}


def scale(
    axes: Mapping[str, Mapping[int, str]] = AXES,
    threads: Sequence[int] = (1,),
    repeats: int = 10,
    seconds: float = 2.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> list[Table]:
    """A table for each axis and number of threads: ours and torch eager's."""
    return [
        _table(axis, works, n, repeats, seconds, clock, kernels)
        for n in threads
        for axis, works in axes.items()
    ]


def _table(
    axis: str,
    works: Mapping[int, str],
    threads: int,
    repeats: int,
    seconds: float,
    clock: str,
    kernels: str | None,
) -> Table:
    plural = "s" if threads > 1 else ""
    title = f"growth with {CHANGED[axis]}, {threads} thread{plural}: ms of a step, MiB at its peak"
    table = Table(title)
    note = missing("torch")
    if note:
        table.notes.append(note)
        return table
    label = peer("torch").LABEL
    for size, work in works.items():
        both = Comparison(work, "cpu", threads, clock)
        with both.start(("ours", "torch"), kernels):
            both.warm()
            both.measure(repeats, seconds)
        table.rows[f"{size:,}: {work}"] = {
            "minigrad, ms": 1e3 * spread(both.times["ours"]).median,
            f"{label}, ms": 1e3 * spread(both.times["torch"]).median,
            "ratio": both.ratio("ours", "torch"),
            "minigrad, MiB": both.peaks["ours"].used,
            f"{label}, MiB": both.peaks["torch"].used,
            "ratio of MiB": both.ratio_of_peaks("ours", "torch"),
        }
    table.notes.append(_growth(table, list(works)))
    return table


def _growth(table: Table, sizes: list[int]) -> str:
    """The growth in cost from the second-largest size to the largest."""
    before, last = list(table.rows.values())[-2:]
    times = [
        f"{column} x {last[column] / before[column]:.2f}"
        for column in table.columns
        if "ratio" not in column and before[column]
    ]
    return f"From {sizes[-2]:,} to {sizes[-1]:,}: {', '.join(times)}"


# ---------------------------------------------------------------- pictures


def plot(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Pictures of time and memory: one for all axes of sizes, one for the axes of T."""
    groups: dict[str, list[Table]] = {}
    for table in tables:
        groups.setdefault("length" if "growth with T" in table.title else "size", []).append(table)
    return [_picture(found, folder / f"scale-{name}.png") for name, found in groups.items()]


def _picture(tables: list[Table], path: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(
        2, len(tables), figsize=(3.6 * len(tables), 6), squeeze=False, layout="constrained"
    )
    for column, table in enumerate(tables):
        for panel, unit in zip(grid[:, column], ("ms", "MiB"), strict=True):
            _lines(panel, table, unit)
        heading = table.title.removeprefix("growth with ").partition(":")[0]
        grid[0, column].set_title(heading, fontsize=10)
    grid[0, 0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _lines(panel: Any, table: Table, unit: str) -> None:
    sizes = [int(name.partition(":")[0].replace(",", "")) for name in table.rows]
    for column in table.columns:
        name, _, of = column.partition(", ")
        if of == unit:
            style = "o-C0" if name == "minigrad" else "s-C1"
            panel.plot(sizes, [row[column] for row in table.rows.values()], style, label=name, markersize=4)
    panel.set_xscale("log", base=2)
    panel.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    panel.set_yscale("log")
    panel.set_ylabel(f"{unit} a step" if unit == "ms" else unit)
    panel.grid(alpha=0.3)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


RATIOS = 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20


def plot_steps(measured: Sequence[Table], path: Path) -> Path:
    """The ratios of every work and peer, from their tables; 1 means equally fast."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tables = [table for table in measured if "/ theirs" in table.title]
    figure, panels = pyplot.subplots(
        1, len(tables), figsize=(5 * len(tables), 3.5), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for panel, table in zip(panels[0], tables, strict=True):
        names = list(table.rows)
        for i, column in enumerate(c for c in table.columns if not c.startswith("MiB")):
            points = [(row[column], y) for y, row in enumerate(table.rows.values()) if row[column]]
            middle = [r[1] for r, _ in points]
            places = [y + 0.08 * i for _, y in points]
            spread = [[r[1] - r[0] for r, _ in points], [r[2] - r[1] for r, _ in points]]
            panel.errorbar(middle, places, xerr=spread, fmt="o", label=column, markersize=5)
        panel.axvline(1, color="0.5", linewidth=1)
        panel.set_xscale("log")
        panel.grid(axis="x", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_yticks(range(len(names)), [name.partition(":")[0] for name in names])
        panel.set_xlabel("ours / theirs (left of the line: ours is faster)")
        panel.set_title(table.title.removeprefix("a training step, ").removesuffix(" / theirs"), fontsize=10)
    panels[0, 0].invert_yaxis()
    low, high = panels[0, 0].get_xlim()
    panels[0, 0].set_xticks(RATIOS, map("{:g}".format, RATIOS))
    panels[0, 0].minorticks_off()
    panels[0, 0].set_xlim(low, max(high, 1.2))
    panels[0, 0].legend(frameon=False, fontsize=8, loc="best")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path
