"""Check a derivative against finite differences, (f(x + eps) - f(x - eps)) / 2 eps, an element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import autograd
from .errors import DtypeError, MinigradError, OptionError
from .tensor import Tensor


class GradcheckError(MinigradError, AssertionError):
    """A derivative that finite differences contradict."""


@dataclass(frozen=True)
class GradcheckReport:
    """What was compared; `worst_error`, the largest |analytic - numeric| - rtol |numeric|, at most atol."""

    elements: int
    worst_error: float
    input: int
    index: tuple[int, ...]
    analytic: float
    numeric: float
    passed: bool

    def __str__(self) -> str:
        verdict = "agrees with" if self.passed else "contradicts"
        return (
            f"the gradient {verdict} finite differences in {self.elements} elements; the worst is input "
            f"{self.input} at {list(self.index)}: analytic {self.analytic:.10g}, numeric {self.numeric:.10g}"
        )


def gradcheck(
    fn: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    order: int = 1,
    raise_exception: bool = True,
) -> GradcheckReport:
    """Compare the gradient of a fixed random weighting of `fn`'s outputs with central differences.

    Inputs that require a gradient are float64, and are left as they are. `order=2` checks the gradient of the
    gradient. Raises GradcheckError where they differ, or returns the report without `raise_exception`.
    """
    if order not in (1, 2):
        raise OptionError(f"order is 1 or 2, got {order}.\nFor more, check the gradient's own gradient.")
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise OptionError("no input requires a gradient.\nPass requires_grad=True for one.")
    for i in checked:
        if inputs[i].dtype != np.float64:
            raise DtypeError(f"input {i} is {inputs[i].dtype}, too coarse for this.\nUse float64.")
    function = fn if order == 1 else _gradient_of(fn, checked)

    def value(arguments: Sequence[Any]) -> Tensor:
        return _weighted(function(*arguments))

    leaves = [Tensor(x.data.copy(), requires_grad=True) if i in checked else x for i, x in enumerate(inputs)]
    wanted = [leaves[i] for i in checked]
    total = value(leaves)  # it requires no gradient where fn is linear and order is 2
    analytic = (
        autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else [None] * len(wanted)
    )

    worst = (-np.inf, 0, (), 0.0, 0.0)
    elements = 0
    for i, gradient in zip(checked, analytic, strict=True):
        array = leaves[i].data
        given = np.zeros(array.shape) if gradient is None else gradient.data
        for index in np.ndindex(array.shape):
            numeric = _central_difference(value, leaves, array, index, eps)
            error = abs(given[index] - numeric) - rtol * abs(numeric)
            elements += 1
            if not error <= worst[0]:
                worst = (
                    float(error) if error == error else np.inf,
                    i,
                    index,
                    float(given[index]),
                    float(numeric),
                )
    report = GradcheckReport(elements, *worst, passed=bool(worst[0] <= atol))
    if raise_exception and not report.passed:
        raise GradcheckError(f"{report}.\nLook at the rule of the op that this element passes through first.")
    return report


def _central_difference(
    value: Callable, leaves: Sequence[Any], array: np.ndarray, index: tuple, eps: float
) -> float:
    before = array[index]
    try:
        array[index] = before + eps
        above = value(leaves).item()
        array[index] = before - eps
        below = value(leaves).item()
    finally:
        array[index] = before
    return (above - below) / (2 * eps)


def _weighted(outputs: Tensor | Sequence[Tensor]) -> Tensor:
    """sum(output * fixed random numbers), which every output element moves by an amount of its own."""
    rng = np.random.default_rng(0)
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    weigh = lambda out: (out * Tensor(rng.uniform(0.5, 1.5, out.shape))).sum()
    return sum((weigh(out) for out in outs if out.is_floating_point()), start=Tensor(np.zeros(())))


def _gradient_of(fn: Callable, checked: list[int]) -> Callable[..., list[Tensor]]:
    def gradient(*inputs: Any) -> list[Tensor]:
        # a leaf stands in the graph below, so that nothing but its path to the output is differentiated
        wanted = [inputs[i] for i in checked]
        found = autograd.grad(_weighted(fn(*inputs)), wanted, create_graph=True, allow_unused=True)
        return [g if g is not None else x * 0.0 for g, x in zip(found, wanted, strict=True)]

    return gradient
