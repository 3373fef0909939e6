"""Functions of arrays that captured steps treat otherwise, as no operation sees what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

marked: list[tuple[str, str]] = [  # (module, name); in these Python looks at numbers, or they draw
    ("minigrad.kernels.cpu.activations", "scaled_keep"),
    ("minigrad.kernels.cpu.attention", "keep_mask"),
    ("minigrad.kernels.cpu.normalization", "_inverse_root"),
    ("minigrad.kernels.cpu.reductions", "length"),
    ("minigrad.kernels.cpu.reductions", "mean_square"),
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


checks: set[tuple[str, str]] = set()  # (module, name)


def check(function: F) -> F:
    """Mark a module's function that refuses wrong numbers, as `if (mask.sum(1) == 0).any(): raise ...` does.

    A captured step computes its conditions again in each replay, and fails where one comes out differently.
    """
    checks.add((function.__module__, function.__name__))
    return function
