"""Where PyTorch's numbers are wrong, and ours are not.

    python -m tests.slow.parity.disagreements

Each case gives the same quantity three times: by PyTorch, by minigrad, and by another way that both must
agree with (the function written out, a difference quotient, NumPy).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

import minigrad as mg

X = np.array([[0.3, -1.2, 0.8, 2.0, -0.5], [1.5, 0.2, -0.7, 0.1, 0.9]])


class Case(NamedTuple):
    name: str
    theirs: np.ndarray
    ours: np.ndarray
    truth: np.ndarray

    def error(self, values: np.ndarray) -> float:
        """The largest distance from the truth, relative to the largest number of the truth."""
        return float(np.abs(values - self.truth).max() / np.abs(self.truth).max())


def cases() -> list[Case]:
    return [third_derivative_of_layer_norm(), logcumsumexp_of_a_zero_gradient(), median(), ties()]


def third_derivative_of_layer_norm() -> Case:
    """Of sum(layer_norm(x)**3), each derivative reduced to one number by its sum of squares."""

    def third(library: Any, layer_norm: Any) -> np.ndarray:
        x = library.tensor(X, requires_grad=True)
        y = (layer_norm(x) ** 3).sum()
        for _ in range(2):
            (g,) = library.autograd.grad(y, x, create_graph=True)
            y = (g**2).sum()
        return library.autograd.grad(y, x)[0].numpy()

    def written_out(x: Any) -> Any:
        centered = x - x.mean(-1, keepdim=True)
        return centered / ((centered**2).mean(-1, keepdim=True) + 1e-5).sqrt()

    return Case(
        "third derivative of layer_norm",
        third(torch, lambda x: torch.nn.functional.layer_norm(x, (5,))),
        third(mg, lambda x: mg.nn.functional.layer_norm(x, (5,))),
        third(torch, written_out),
    )


def logcumsumexp_of_a_zero_gradient() -> Case:
    """d sum(g**2) / du, where g is the gradient of logcumsumexp for an upstream gradient u that has a 0."""

    def second(library: Any, logcumsumexp: Any) -> np.ndarray:
        x = library.tensor(X[0], requires_grad=True)
        u = library.tensor([1.0, 0.0, 2.0, 0.0, 1.0], dtype=library.float64, requires_grad=True)
        (g,) = library.autograd.grad(logcumsumexp(x), x, u, create_graph=True)
        return library.autograd.grad((g**2).sum(), u)[0].numpy()

    return Case(
        "second derivative of logcumsumexp, some upstream gradients 0",
        second(torch, lambda x: x.logcumsumexp(0)),
        second(mg, lambda x: x.logcumsumexp(0)),
        second(torch, lambda x: x.exp().cumsum(0).log()),
    )


def median() -> Case:
    """The median over an axis that `expand` made.

    PyTorch reads beyond the end of the row: its answer depends on what that memory held before, and may even
    be right. The worst of 100 answers is kept, each with other numbers in the memory freed before.
    """
    row = np.array([[1.0, 2.0, 3.0]])
    truth = np.median(np.broadcast_to(row, (2, 3)), axis=0)
    theirs = []
    for i in range(100):
        for size in range(1, 17):
            torch.full((size,), -7.0 - i, dtype=torch.float64)
        theirs.append(torch.tensor(row).expand(2, 3).median(dim=0).values.numpy())
    worst = max(theirs, key=lambda values: np.abs(np.nan_to_num(values - truth)).max())
    ours = mg.tensor(row).expand(2, 3).median(dim=0).values.numpy()
    return Case("median over an expanded axis", worst, ours, truth)


def ties() -> Case:
    """How much the largest of two equal numbers grows when both grow: 1, the sum of their gradients."""

    def shares(library: Any) -> np.ndarray:
        start = library.tensor([2.0], dtype=library.float64)
        source = library.tensor([2.0, 2.0], dtype=library.float64, requires_grad=True)
        places = library.tensor([0, 0])
        largest = start.scatter_reduce(0, places, source, "amax", include_self=False)
        largest.sum().backward()
        return source.grad.sum().reshape(1).numpy()

    step = 1e-6
    both = lambda value: np.maximum.reduce([value, value])
    slope = (both(2 + step) - both(2 - step)) / (2 * step)
    return Case("ties of scatter_reduce, include_self=False", shares(torch), shares(mg), np.array([slope]))


if __name__ == "__main__":
    print(f"{'largest relative error':66} PyTorch {torch.__version__.partition('+')[0]:>8}   minigrad")
    for case in cases():
        print(f"{case.name:66} {case.error(case.theirs):16.2g} {case.error(case.ours):10.2g}")
