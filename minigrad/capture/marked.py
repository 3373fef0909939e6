"""Functions of arrays that a captured step makes as one call, because no operation sees what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

marked: list[tuple[str, str]] = [  # (module, name); in these Python looks at numbers, or they draw
    ("minigrad.kernels.cpu.activations", "scaled_keep"),
    ("minigrad.kernels.cpu.attention", "keep_mask"),
    ("minigrad.kernels.jit.losses", "refuse_wrong_classes"),
    ("minigrad.kernels.jit.indexing", "refuse_wrong_ids"),
]


def one_call(function: F) -> F:
    """Mark a module's function that computes a new array from arrays by NumPy, or writes into its first and
    returns None: capture records it as a whole.

    Without capture it is called as it is.
    """
    marked.append((function.__module__, function.__name__))
    return function
