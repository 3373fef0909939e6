"""What flows back through broadcasting."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..checking import check_cases

LESSON = 3
REASONING = "shapes"
HINTS = (
    "Write both shapes under each other, aligned on the right: (2, 3, 4) over (3, 1). Which axes are missing "
    "in the second? Where has it length 1?",
    "g has g.ndim - len(shape) axes too many, on the left: sum over them first. Then both have equally "
    "many axes, and those where `shape` is 1 remain: sum over them, and keep them.",
    "g.sum(axis=tuple(range(g.ndim - len(shape)))), then .sum(axis=ones, keepdims=True), where ones is the "
    "tuple of all i with shape[i] == 1.",
)
ADVICE = "Sum over the axes that `shape` lacks, on the left, and over those where it is 1; the latter stay."
CASES = (  # shape of g, shape of the small array; in a square g, a wrong axis has the right length
    ((3, 3), (3,)), ((3, 3), (3, 1)), ((3, 4), (1, 4)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (1, 1, 4)), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (2, 3, 1)), ((2, 3, 4), (1,)),
    ((2, 3, 4), (1, 1, 1)), ((3, 1, 4), (1, 4)), ((3, 3, 3, 3), (3, 1, 3)), ((2, 3, 4), (2, 3, 4)),
    ((2, 3, 4), ()), ((3,), ()), ((0, 3), (3,)), ((), ()),
)  # fmt: skip


def check(answer: ModuleType) -> None:
    random = np.random.default_rng(0)
    cases = [(random.normal(size=of_g), shape) for of_g, shape in CASES]
    call = lambda g, shape: f"unbroadcast(g, {shape}) for g of shape {g.shape}"
    check_cases(answer.unbroadcast, cases, _sum_to, MISTAKES, call, ADVICE)


def _extra(g: np.ndarray, shape: tuple[int, ...]) -> int:
    return g.ndim - len(shape)


def _sum_to(g: np.ndarray, shape: tuple[int, ...], fold: Any = np.sum) -> np.ndarray:
    extra = _extra(g, shape)
    ones = tuple(extra + i for i, n in enumerate(shape) if n == 1)
    return np.reshape(fold(g, axis=(*range(extra), *ones)), shape)


def _first(g: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    return g[tuple(0 if i in axis else slice(None) for i in range(g.ndim))]


def _last(g: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    return g[tuple(-1 if i in axis else slice(None) for i in range(g.ndim))]


def _from_the_right(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The result if missing axes are assumed to be on the right."""
    extra = _extra(g, shape)
    return _sum_to(np.moveaxis(g, range(g.ndim - extra, g.ndim), range(extra)), shape)


def _without_ones(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if 1 not in shape:
        raise ValueError("no axis of length 1")
    return g.sum(axis=tuple(range(_extra(g, shape))))


def _only_ones(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    extra = _extra(g, shape)
    return g.sum(axis=tuple(extra + i for i, n in enumerate(shape) if n == 1), keepdims=True)


def _one_missing(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h = np.asarray(g.sum(0) if _extra(g, shape) else g)
    return h.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def _one_of_the_ones(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h = np.asarray(g.sum(axis=tuple(range(_extra(g, shape)))))
    return h.sum(shape.index(1), keepdims=True)


def _counted_from_the_left(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h = g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
    return h.sum(axis=tuple(range(_extra(g, shape))))


def _wrong_way_round(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h = np.asarray(g.sum(axis=tuple(range(_extra(g, shape)))))
    return h.sum(axis=tuple(i for i, n in enumerate(shape) if n != 1), keepdims=True)


def _mean_of_ones(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    h = np.asarray(g.sum(axis=tuple(range(_extra(g, shape)))))
    return h.mean(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


MISTAKES: dict[str, Callable[[np.ndarray, tuple[int, ...]], Any]] = {
    "the axes of length 1 are not summed: the small array was repeated along them, too": _without_ones,
    "the axes of length 1 are lost: keep them, by keepdims": (
        lambda g, shape: _sum_to(g, shape).reshape([n for n in shape if n != 1])
    ),
    "the missing axes are on the left; here axes on the right are summed": _from_the_right,
    "the missing axes are kept with length 1: `shape` does not have them": (
        lambda g, shape: _sum_to(g, shape).reshape([1] * _extra(g, shape) + list(shape))
    ),
    "g comes back as it was; what the copies get must be added up": lambda g, shape: g,
    "the missing axes are not summed, only those of length 1": _only_ones,
    "one missing axis is summed, but all of them must be": _one_missing,
    "one axis of length 1 is summed, but all of them must be": _one_of_the_ones,
    "the axes of `shape` are counted in g from the left: axis i of both is the same only after the missing "
    "axes are gone": _counted_from_the_left,
    "a mean instead of a sum: each use counts in full": lambda g, shape: _sum_to(g, shape, np.mean),
    "the mean over the axes of length 1, not the sum: each use counts in full": _mean_of_ones,
    "only one of the copies counts, the first": lambda g, shape: _sum_to(g, shape, _first),
    "only one of the copies counts, the last": lambda g, shape: _sum_to(g, shape, _last),
    "the largest of the copies' gradients, not their sum": lambda g, shape: _sum_to(g, shape, np.max),
    "summed over the axes whose length is not 1; it is the others that were repeated": _wrong_way_round,
    "only the first axis is summed": lambda g, shape: g.sum(0),
    "only the last axis is summed": lambda g, shape: g.sum(-1),
    "everything is summed into one number": lambda g, shape: g.sum(),
    "everything is summed, and each element gets the whole sum": lambda g, shape: np.full(shape, g.sum()),
    "numbers of g are cut out, none are added": lambda g, shape: np.resize(g, shape),
    "zeros; nothing was added up": lambda g, shape: np.zeros(shape),
}
