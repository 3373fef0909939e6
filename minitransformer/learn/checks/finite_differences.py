"""Finite differences: a gradient by measuring."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import Wrong, check_cases

LESSON = 4
REASONING = "derivation"
HINTS = (
    "f(x + h) = f(x) + h f'(x) + h^2 f''(x) / 2 + ...; in f(x - h) every second sign is turned. What "
    "remains of the difference of both?",
    "f(x + h) - f(x - h) = 2 h f'(x) + (terms with h^3). For an array: two copies of x, in each of which one "
    "element is moved.",
    "In the loop: up = x.copy(), up[index] += h; down likewise, with -=; gradient[index] = (f(up) - f(down)) "
    "/ (2 * h).",
)
ADVICE = "For each index: two fresh copies of x, one element moved up and down, (f(up) - f(down)) / (2 h)."
C = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def check(answer: ModuleType) -> None:
    x = np.array([[1.0, 2.0, -1.0], [0.5, 3.0, 1.5]])
    cases = [  # a large h shows which terms of Taylor's series remain
        (_curved, x, 0.5),
        (_curved, x, 1e-5),
        (_cubes, np.array([1.0, -2.0]), 0.1),
        (_cubes, x[:, :2].reshape(2, 1, 2), 0.1),
        (_cubes, np.array(2.0), 0.1),
        (_cubes, np.zeros((0, 3)), 0.1),
    ]
    call = lambda f, x, h: f"finite_differences(f, x, h={h:g}) for x of shape {x.shape}"
    unused = "the argument h is not used: the result is the same for half of h"
    mistakes = MISTAKES | {unused: lambda f, x, h: answer.finite_differences(f, x.copy(), h / 2)}

    def finite_differences(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> Any:
        return answer.finite_differences(_watched(f, x.shape), x, h)

    check_cases(finite_differences, cases, _measured, mistakes, call, ADVICE)


def _watched(f: Callable[[np.ndarray], float], shape: tuple[int, ...]) -> Callable[[Any], float]:
    """Return a function like f that raises Wrong if it is called with an array of another shape."""

    def watched(x: Any) -> float:
        if np.shape(x) != shape:
            raise Wrong(
                f"f is called with an array of shape {np.shape(x)}, but x has shape {shape}",
                "f takes the whole array, in which one element was moved.",
            )
        return f(x)

    return watched


def _curved(x: np.ndarray) -> float:
    """A function with cubes, so that both sides differ, and products of elements in a row and a column."""
    return float((C * x**3).sum() + x[0, 0] ** 2 * x[0, 1] + 2 * x[0, 2] * x[1, 2] ** 2)


def _cubes(x: np.ndarray) -> float:
    return float((x**3).sum())


def _measured(
    f: Callable[[np.ndarray], float], x: np.ndarray, h: float, up: float = 1, down: float = -1, by: float = 2
) -> np.ndarray:
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        gradient[index] = (f(_moved(x, index, up * h)) - f(_moved(x, index, down * h))) / (by * h)
    return gradient


def _moved(x: np.ndarray, index: Any, h: Any) -> np.ndarray:
    moved = x.copy()
    moved[index] += h
    return moved


def _all_at_once(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> np.ndarray:
    return np.full(x.shape, (f(x + h) - f(x - h)) / (2 * h))


def _rows(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> np.ndarray:
    if x.ndim < 2 or x[0].size < 2:
        raise ValueError("rows of one element")
    slopes = [(f(_moved(x, i, h)) - f(_moved(x, i, -h))) / (2 * h) for i in range(len(x))]
    return np.broadcast_to(np.reshape(slopes, (-1,) + (1,) * (x.ndim - 1)), x.shape)


def _never_put_back(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> np.ndarray:
    """The gradient if two copies are made before the loop, so that earlier elements stay moved."""
    up, down, gradient = x.copy(), x.copy(), np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up[index] += h
        down[index] -= h
        gradient[index] = (f(up) - f(down)) / (2 * h)
    return gradient


def _replaced(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> np.ndarray:
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up = _moved(x, index, h - x[index])
        down = _moved(x, index, -h - x[index])
        gradient[index] = (f(up) - f(down)) / (2 * h)
    return gradient


def _stretched(f: Callable[[np.ndarray], float], x: np.ndarray, h: float) -> np.ndarray:
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up = _moved(x, index, h * x[index])
        down = _moved(x, index, -h * x[index])
        gradient[index] = (f(up) - f(down)) / (2 * h)
    return gradient


def _only_one(f: Callable[[np.ndarray], float], x: np.ndarray, h: float, which: int) -> np.ndarray:
    gradient = np.zeros(x.size)
    gradient[which] = _measured(f, x, h).ravel()[which]
    return gradient.reshape(x.shape)


MISTAKES: dict[str, Callable[..., Any]] = {
    "the difference is to the right side only: (f(x + h) - f(x)) / h has an error of the order h": (
        lambda f, x, h: _measured(f, x, h, down=0, by=1)
    ),
    "the difference is to the left side only: (f(x) - f(x - h)) / h has an error of the order h": (
        lambda f, x, h: _measured(f, x, h, up=0, by=1)
    ),
    "twice the slope: x + h and x - h are 2 h apart": lambda f, x, h: _measured(f, x, h, by=1),
    "half the slope: x + h and x are h apart, not 2 h": lambda f, x, h: _measured(f, x, h, down=0),
    "the sign is wrong: it is f(up) - f(down)": lambda f, x, h: _measured(f, x, h, by=-2),
    "divided by 2, then multiplied by h: in Python `/ 2 * h` needs parentheses, `/ (2 * h)`": (
        lambda f, x, h: _measured(f, x, h, by=2 / h**2)
    ),
    "the difference is not divided by 2 h": lambda f, x, h: _measured(f, x, h, by=1 / h),
    "the difference is divided by 2, but not by h": lambda f, x, h: _measured(f, x, h, by=2 / h),
    "the difference is divided by h^2": lambda f, x, h: _measured(f, x, h, by=h),
    "the points are x + h / 2 and x - h / 2, not x + h and x - h": (
        lambda f, x, h: _measured(f, x, h, 0.5, -0.5, 1)
    ),
    "half the slope: x + h and x - h are 2 h apart, and the division is by 4 h": (
        lambda f, x, h: _measured(f, x, h, by=4)
    ),
    "all elements move at once: each entry needs its own pair of calls, with one element moved": _all_at_once,
    "a whole row moves at once: `index` must name one element": _rows,
    "elements that were moved stay moved: begin each time with fresh copies of x": _never_put_back,
    "each entry is the sum of all slopes: `gradient += ...` adds to all, `gradient[index] = ...` sets one": (
        lambda f, x, h: np.full(x.shape, _measured(f, x, h).sum())
    ),
    "the sizes are right, but every sign is positive": lambda f, x, h: np.abs(_measured(f, x, h)),
    "the element is replaced by h and by -h; it must move by h": lambda f, x, h: _replaced(f, x, h),
    "each element moves by h times its own value: it must move by h": _stretched,
    "all other elements are 0: they must stay as they are in x": (
        lambda f, x, h: _measured(f, np.zeros_like(x), h)
    ),
    "only the last element's slope is there: store each one at its index": (
        lambda f, x, h: _only_one(f, x, h, -1)
    ),
    "only the first element's slope is there: the function returns inside the loop": (
        lambda f, x, h: _only_one(f, x, h, 0)
    ),
    "0 everywhere: f sees the same numbers twice, or no result is stored; `up = x` is x itself, not a copy": (
        lambda f, x, h: np.zeros(x.shape)
    ),
    "the slopes are right, but in a list: give them the shape of x": (
        lambda f, x, h: _measured(f, x, h).ravel()
    ),
    "the sum of all slopes, not one for each element": lambda f, x, h: _measured(f, x, h).sum(),
}  # fmt: skip
