"""HTML reprs of tensors and modules for notebooks.

Styles are inline, since a notebook may remove style sheets; colours suit light and dark themes.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import printing
from ..core.devices import on_cpu
from ..core.dtypes import is_floating
from ..core.tensor import Tensor
from ..nn import Module
from ..palette import NEGATIVE, POSITIVE, rgb
from .labels import kind_of, quantity

MOST = 10  # the most rows and columns to show in full
ENDS = 4  # how many of the first and last rows and columns to show if there are more
MATRICES = 3  # the most matrices to show of a tensor with more than two axes
CELL = "padding: 1px 7px; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap"
QUIET = "opacity: 0.7"


def show(x: Tensor | Module) -> str:
    """Return the HTML with which a notebook displays a tensor or a module."""
    return module_html(x) if isinstance(x, Module) else tensor_html(x)


def tensor_html(tensor: Tensor) -> str:
    """Return HTML with a tensor's dtype and shape, and tables of its numbers, coloured by sign and size."""
    array = on_cpu(tensor.array, "showing a tensor")
    facts = [kind_of(array)]
    facts += [] if tensor.device == "cpu" else [str(tensor.device)]
    if tensor.node is not None:
        facts.append(f"computed by {repr(tensor).rpartition('grad_fn=<')[2].rstrip('>)')}")
    elif tensor.requires_grad:
        facts.append("requires a gradient")
    head = f'<div style="{QUIET}">{html.escape(" · ".join(facts))}</div>'
    if not array.size:
        return head
    corners = _corners(array)
    write = printing.writer(corners)
    if not array.ndim:
        return f"{head}<div>{html.escape(write(array[()]).strip())}</div>"
    sizes = np.abs(corners.astype(np.float64)) if is_floating(array.dtype) else np.zeros(1)
    return head + "".join(_matrices(array, write, float(sizes[np.isfinite(sizes)].max(initial=0.0))))


def _matrices(array: np.ndarray, write: Any, largest: float) -> Iterator[str]:
    leading = list(np.ndindex(array.shape[:-2]))
    for index in leading[:MATRICES]:
        if index:
            yield f'<div style="{QUIET}">[{", ".join(map(str, index))}, :, :]</div>'
        yield _table(array[index] if index else array, write, largest)
    if len(leading) > MATRICES:
        yield f'<div style="{QUIET}">… and {len(leading) - MATRICES:,} more matrices</div>'


def _table(matrix: np.ndarray, write: Any, largest: float) -> str:
    rows = matrix[None] if matrix.ndim == 1 else matrix
    columns = _shown_indices(rows.shape[1])
    lines = []
    if matrix.ndim > 1 or rows.shape[1] > MOST:
        heads = (f'<th style="{CELL}; {QUIET}; font-weight: normal">{_label(j)}</th>' for j in columns)
        lines.append(f"<tr>{'<th></th>' * (matrix.ndim > 1)}{''.join(heads)}</tr>")
    for i in _shown_indices(rows.shape[0]):
        side = f'<th style="{CELL}; {QUIET}; font-weight: normal">{_label(i)}</th>' * (matrix.ndim > 1)
        cells = "".join(_cell(None if None in (i, j) else rows[i, j], write, largest) for j in columns)
        lines.append(f"<tr>{side}{cells}</tr>")
    return f'<table style="border-collapse: collapse; margin: 2px 0">{"".join(lines)}</table>'


def _cell(x: Any, write: Any, largest: float) -> str:
    if x is None:
        return f'<td style="{CELL}; {QUIET}">…</td>'
    colour = ""
    if largest and np.isfinite(x) and x:
        share = 0.45 * abs(float(x)) / largest
        red, green, blue = rgb(POSITIVE if x > 0 else NEGATIVE)
        colour = f"; background: rgba({red}, {green}, {blue}, {share:.2f})"
    return f'<td style="{CELL}{colour}">{html.escape(write(x).strip())}</td>'


def _shown_indices(n: int) -> list[int | None]:
    """Return the indices of n rows or columns to show; None stands for those left out."""
    return [*range(n)] if n <= MOST else [*range(ENDS), None, *range(n - ENDS, n)]


def _label(i: int | None) -> str:
    return "…" if i is None else str(i)


def _corners(array: np.ndarray) -> np.ndarray:
    """Return the elements at the ends of all axes, which determine the number format."""
    for axis, n in enumerate(array.shape):
        if n > MOST:
            array = array.take([*range(ENDS), *range(n - ENDS, n)], axis=axis)
    return array.ravel()


# ---------------------------------------------------------------- modules


def module_html(module: Module) -> str:
    """Return HTML with the expandable tree of modules, each with its number and share of parameters."""
    parameters = list(module.parameters())
    total = sum(p.numel() for p in parameters)
    nbytes = sum(p.array.nbytes for p in parameters)
    frozen = sum(p.numel() for p in parameters if not p.requires_grad)
    facts = [
        f"{total:,} parameters",
        *([f"{frozen:,} of them frozen"] if frozen else []),
        quantity(nbytes, "B"),
    ]
    head = f'<div style="{QUIET}">{" · ".join(facts)}</div>'
    return f'<div style="line-height: 1.5">{head}{_module("", module, total, is_open=True)}</div>'


def _module(name: str, module: Any, total: int, is_open: bool = False) -> str:
    count = sum(p.numel() for p in module.parameters())
    share = f", {count / total:.1%}" if total and count < total else ""
    own = "".join(
        f"<div>{html.escape(key)} <span style='{QUIET}'>{kind_of(p.array)}</span></div>"
        for key, p in module.named_parameters(recurse=False)
    )
    inner = own + "".join(_module(key, child, total) for key, child in module.named_children())
    label = f"<b>{html.escape(name)}</b> " if name else ""
    extra = html.escape(f"({module.extra_repr()})" if module.extra_repr() else "")
    says = f'<span style="{QUIET}">{count:,}{share}</span>' if count else ""
    line = f"{label}{html.escape(type(module).__name__)}{extra} {says}"
    if not inner:
        return f'<div style="margin-left: 1.1em">{line}</div>'
    opened = " open" if is_open else ""
    return (
        f'<details{opened}><summary style="cursor: pointer">{line}</summary>'
        f'<div style="margin-left: 1.5em">{inner}</div></details>'
    )
