"""Curves as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Points = Sequence[tuple[float, float]]


def chart(series: Mapping[str, Points], width: int = 64, height: int = 12) -> list[str]:
    """Plot series of points as lines of text. A series is drawn with its key; later series are on top."""
    points = [(x, y, mark) for mark, pairs in series.items() for x, y in pairs if np.isfinite([x, y]).all()]
    if not points:
        return []
    xs = np.array([p[0] for p in points], float)
    ys = np.array([p[1] for p in points], float)
    columns = _bins(xs, width)
    rows = height - 1 - _bins(ys, height)
    grid = [[" "] * width for _ in range(height)]
    for column, row, (_, _, mark) in zip(columns, rows, points, strict=True):
        grid[row][column] = mark
    labels = [""] * height
    for row, y in ((0, ys.max()), (height // 2, ys.max() - np.ptp(ys) * (height // 2) / (height - 1))):
        labels[row] = f"{y:.4g}"
    labels[-1] = f"{ys.min():.4g}"
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    first = f"{xs.min():,.0f}"
    last = f"{xs.max():,.0f}"
    gap = " " * max(width - len(first) - len(last), 1)
    return [*lines, f"{'':>{margin}} +{'-' * width}", f"{'':>{margin}}  {first}{gap}{last}"]


def _bins(values: np.ndarray, count: int) -> np.ndarray:
    """The index of each value's bin, of `count` bins from the smallest to the largest value."""
    span = np.ptp(values)
    fraction = (values - values.min()) / span if span else np.zeros_like(values)
    return np.round(fraction * (count - 1)).astype(int)
