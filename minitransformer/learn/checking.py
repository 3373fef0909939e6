"""Functions for the checks of exercises, which compare values and check gradients."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor

from ..errors import truncated_repr


class Wrong(Exception):
    """Raised if an answer is wrong: `verdict` says what is wrong, `advice` what to do about it."""

    def __init__(self, verdict: str, advice: str = "") -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.advice = advice


def compare(
    call: str,
    value: Any,
    expected: Any,
    mistakes: Mapping[str, Any] | None = None,
    advice: str = "",
    tolerance: float = 1e-6,
    otherwise: Callable[[], None] | None = None,
) -> None:
    """Raise Wrong unless `value`, the result of `call`, is `expected`.

    `mistakes` maps the verdict on a typical mistake to the value that this mistake would give. If `value` is
    none of these, `otherwise` may raise another verdict; else, Wrong names the first numbers that differ
    most. `tolerance` is relative to the largest expected number.
    """
    if value is None:
        raise Wrong(f"{call} returns nothing", "End the function with `return` and the result.")
    found = _array(value, call)
    right = _array(expected, call)
    if _equal(found, right, tolerance):
        return
    for verdict, wrong in (mistakes or {}).items():
        if _equal(found, _array(wrong, call), tolerance):
            raise Wrong(verdict, advice)
    if otherwise:
        otherwise()
    if found.shape != right.shape:
        shapes = f"{list(found.shape)}, expected {list(right.shape)}"
        raise Wrong(f"{call} has shape {shapes}", advice or "Write the shape beside each line.")
    if not np.isfinite(found).all() and np.isfinite(right).all():
        index = np.argwhere(~np.isfinite(found))[0]
        raise Wrong(
            f"{call}{_place(index)} is {found[tuple(index)]}, expected {right[tuple(index)]:.6g}", advice
        )
    if (np.isnan(found) & ~np.isnan(right)).any():
        index = np.argwhere(np.isnan(found) & ~np.isnan(right))[0]
        text = f"{call}{_place(index)} is nan, expected {right[tuple(index)]:.6g}"
        raise Wrong(text, advice or "Look for 0 / 0, inf - inf or 0 * inf.")
    off = np.where(found == right, 0.0, np.abs(found - right))  # 0 also for two infinities
    index = np.unravel_index(int(np.nanargmax(off)), off.shape)
    count = int((off > tolerance * _scale(right)).sum())
    numbers = f"{found[index]:.6g}, expected {right[index]:.6g}"
    some = f"; {count} of {found.size} numbers differ" if found.size > 1 else ""
    raise Wrong(f"{call}{_place(index)} is {numbers}{some}", advice)


def result_of(function: Callable[..., Any], *arguments: Any, count: int = 1) -> Any:
    """Call a function and return its result.

    Raise Wrong if it changes an argument, or does not return `count` values.
    """
    name = function.__name__
    before = copy.deepcopy(arguments)
    try:
        result = function(*arguments)
    except Exception as error:  # the tutor names the call
        error.add_note(f"{name}({', '.join(map(_shape_or_value, before))})")
        raise
    for old, new in zip(before, arguments, strict=True):
        if not _same(old, new):
            raise Wrong(f"{name} changes its arguments in place", "Make new arrays, or work on a copy.")
    if count > 1 and not (isinstance(result, (tuple, list)) and len(result) == count):
        kind = "nothing" if result is None else f"something other than {count} values"
        raise Wrong(f"{name} returns {kind}", "Keep its last line as it was.")
    return result


def _shape_or_value(argument: Any) -> str:
    shape = getattr(argument, "shape", None)
    return truncated_repr(argument) if shape is None else f"an array of shape {list(shape)}"


def check_cases(
    function: Callable[..., Any],
    cases: Sequence[tuple[Any, ...]],
    right: Callable[..., Any],
    mistakes: Mapping[str, Callable[..., Any]],
    call: Callable[..., str],
    advice: str | Callable[..., str] = "",
    equal: Callable[[Any, Any], bool] | None = None,
    otherwise: Callable[[str, Any, Any, str], None] | None = None,
    by_luck: bool = False,
    count: int = 1,
    part: int | None = None,
) -> None:
    """Raise Wrong unless `function` returns what `right` does for each case, a tuple of arguments.

    `mistakes` maps the verdict on a typical mistake to a function that makes it. Of the mistakes that agree
    with the answer in the first case where it is wrong, the one that agrees in most cases is named. With
    `by_luck`, for results that two functions may share by chance, it must agree in all cases. If there is no
    such mistake, `otherwise` raises Wrong, or `compare` does. `call(*arguments)` describes a case in
    messages. `count` is the number of values that the function returns, and `part` the index of the one to
    check.
    """
    equal = equal or _is_close
    found: list[Any] = []
    first = None  # the first case that is wrong
    for i, arguments in enumerate(cases):
        try:
            result = result_of(function, *arguments, count=count)
            found.append(result if part is None else result[part])
        except Exception:
            if first is None:
                raise
            break
        if first is None and not equal(found[i], right(*arguments)):
            first = i
    if first is None:
        return
    arguments = cases[first]
    counts = {}
    for verdict, wrong in mistakes.items():
        if _agrees(equal, found[first], wrong, arguments):
            agreeing = [_agrees(equal, value, wrong, cases[i]) for i, value in enumerate(found)]
            if all(agreeing) or not by_luck:
                counts[verdict] = sum(agreeing)
    told = advice if isinstance(advice, str) else advice(*arguments)
    if counts:
        raise Wrong(f"{call(*arguments)}: {max(counts, key=counts.__getitem__)}", told)
    if otherwise:
        otherwise(call(*arguments), found[first], right(*arguments), told)
    compare(call(*arguments), found[first], right(*arguments), advice=told)


def of_case(make_case: Callable[..., Any], formula: Callable[[Any], Any], *arguments: Any) -> Any:
    """Apply a formula to the case that `make_case` makes from a call's arguments."""
    return formula(make_case(*arguments))


def with_pairs(
    function: Callable[..., Any], steps: Sequence[Mapping[str, Mapping[str, Any]]]
) -> dict[str, Callable[..., Any]]:
    """Return `mistakes` for `check_cases`: each single mistake, and each pair of mistakes in different steps.

    A step maps a verdict to the keyword arguments with which `function` makes that mistake.
    """
    mistakes: dict[str, Callable[..., Any]] = {}
    for step in steps:
        for verdict, change in step.items():
            mistakes[verdict] = partial(function, **change)
    for one, other in combinations(steps, 2):
        for first, change in one.items():
            for second, further in other.items():
                if not set(change) & set(further):
                    mistakes[f"{first}. Then, {second}"] = partial(function, **change, **further)
    return mistakes


def _agrees(
    equal: Callable[[Any, Any], bool], value: Any, wrong: Callable[..., Any], arguments: tuple[Any, ...]
) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):  # such as that of an empty mean
            return equal(value, wrong(*arguments))
    except (ValueError, IndexError, TypeError):  # shapes that do not fit
        return False


def _is_close(value: Any, other: Any) -> bool:
    try:
        return _equal(_array(value, ""), _array(other, ""), 1e-6)
    except Wrong:  # not numbers
        return False


def check_gradient(
    call: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    mistakes: Mapping[str, Callable[..., Any]] | None = None,
) -> None:
    """Raise Wrong unless the gradients of `function` agree with finite differences at `inputs`.

    `mistakes` maps a verdict to a function that makes this mistake, whose gradients are compared with the
    answer's. If none agrees, the verdict is gradcheck's.
    """
    report = mg.gradcheck(function, list(inputs), raise_exception=False)
    if report:
        return
    for verdict, wrong in (mistakes or {}).items():
        if _same_gradients(function, wrong, inputs):
            raise Wrong(verdict)
    numbers = ""
    if report.elements:
        numbers = (
            f" (input {report.input} at {list(report.index)}: yours gives {report.analytic:.6g}, "
            f"finite differences {report.numeric:.6g})"
        )
    raise Wrong(f"the gradient of {call}: {report.verdict}{numbers}", report.advice)


def _same_gradients(one: Callable[..., Any], other: Callable[..., Any], inputs: Sequence[Any]) -> bool:
    try:
        pairs = zip(_gradients(one, inputs), _gradients(other, inputs), strict=True)
        return all(_equal(a, b, 1e-6) for a, b in pairs)
    except (mg.MinigradError, ValueError):  # a function with wrong shapes has no gradients to compare
        return False


def _gradients(function: Callable[..., Any], inputs: Sequence[Any]) -> list[np.ndarray]:
    out = function(*inputs)
    weights = mg.tensor(np.random.default_rng(0).uniform(0.5, 1.5, out.shape))
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    found = mg.autograd.grad([(out * weights).sum()], leaves, allow_unused=True)
    return [np.zeros(x.shape) if g is None else g.numpy() for x, g in zip(leaves, found, strict=True)]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(np.array_equal(a, b))


def _array(value: Any, call: str) -> np.ndarray:
    try:
        return np.asarray(value.numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise Wrong(
            f"{call} is of type {kind}", "Return an array of numbers, all rows equally long."
        ) from None


def _equal(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=tolerance * _scale(b), equal_nan=True)


def _scale(expected: np.ndarray) -> float:
    finite = np.abs(expected[np.isfinite(expected)])
    return float(finite.max(initial=0.0)) or 1.0


def _place(index: Sequence[Any]) -> str:
    return f"[{', '.join(str(int(i)) for i in index)}]" if len(index) else ""
