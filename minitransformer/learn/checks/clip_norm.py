"""Gradient clipping by the global norm."""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from ..checking import Wrong, check_cases

LESSON = 12
REASONING = ""
HINTS = (
    "The norm of a vector is the root of the sum of its squares. Over which numbers does the sum go here?",
    "Sum the squares of each array, sum these sums, and take one root. If the norm is above max_norm, which "
    "factor makes it max_norm?",
    "norm = sqrt(sum of np.sum(g**2)); scale = max_norm / norm if norm > max_norm else 1; g * scale for "
    "each.",
)
Arrays = list[np.ndarray]


def _cases() -> list[tuple[Arrays, float]]:
    random = np.random.default_rng(0)
    draw = lambda scale: [random.normal(size=shape) * scale for shape in ((2, 3), (4,), (1, 2, 2), ())]
    return [
        (draw(3.0), 2.0),  # clipped
        (draw(0.1), 2.0),  # below the limit
        ([np.array([3.0, -4.0])], 2.5),
        ([np.array([[0.3], [-0.4]]), np.array([1.2])], 10.0),
        (draw(100.0), 0.5),
        ([np.zeros(3), np.zeros((2, 2))], 1.0),
    ]


def _norm(arrays: Arrays) -> float:
    return float(np.sqrt(sum(np.sum(a**2) for a in arrays)))


def _flat(arrays: Arrays) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in arrays])


def _factor(arrays: Arrays, limit: float) -> float:
    return limit / _norm(arrays) if _norm(arrays) > limit else 1.0


def _each(arrays: Arrays, limit: float) -> Arrays:
    return [a * _factor([a], limit) for a in arrays]


def _scale_to(arrays: Arrays, limit: float) -> np.ndarray:
    """The gradient scaled to the norm `limit`, even if it was smaller; NaN if it is 0."""
    return _flat(arrays) * np.float64(limit) / _norm(arrays)


WRONG_NORMS: dict[str, Callable[[Arrays, float], float]] = {
    "is the sum of the squares, without its root": lambda g, limit: _norm(g) ** 2,
    "is the sum of the arrays' norms: sum the squares first, and take one root": (
        lambda g, limit: sum(_norm([a]) for a in g)
    ),
    "is the largest of the arrays' norms: it is one norm for all numbers": (
        lambda g, limit: max(_norm([a]) for a in g)
    ),
    "is that of the first array only": lambda g, limit: _norm(g[:1]),
    "is that of the last array only": lambda g, limit: _norm(g[-1:]),
    "is the sum of absolute values: square the numbers": lambda g, limit: np.abs(_flat(g)).sum(),
    "is the largest absolute value": lambda g, limit: np.abs(_flat(g)).max(),
    "has the mean of the squares, not their sum": lambda g, limit: np.sqrt((_flat(g) ** 2).mean()),
    "has the squares of the arrays' sums: square each number": (
        lambda g, limit: float(np.sqrt(sum(a.sum() ** 2 for a in g)))
    ),
    "is divided by the number of arrays": lambda g, limit: _norm(g) / len(g),
    "is the mean of the arrays' norms": lambda g, limit: float(np.mean([_norm([a]) for a in g])),
    "has the sum of the arrays' mean squares, not of their squares": (
        lambda g, limit: np.sqrt(sum(np.mean(a**2) for a in g))
    ),
    "is the root of a sum without squares": lambda g, limit: np.sqrt(np.abs(_flat(g)).sum()),
    "is the norm after clipping: return the one before": lambda g, limit: min(_norm(g), limit),
    "is the sum of the numbers: squares do not cancel": lambda g, limit: _flat(g).sum(),
}
WRONG_GRADIENTS: dict[str, Callable[[Arrays, float], np.ndarray]] = {
    "do not change: a gradient above max_norm must be scaled": lambda g, limit: _flat(g),
    "are clipped array by array, which changes the direction: one factor for all": (
        lambda g, limit: _flat(_each(g, limit))
    ),
    "are clipped number by number, which changes the direction: one factor for all": (
        lambda g, limit: np.clip(_flat(g), -limit, limit)
    ),
    "always get the norm max_norm: a smaller gradient must stay as it is": _scale_to,
    "always get the norm max_norm (or stay 0): a smaller gradient must stay as it is": (
        lambda g, limit: np.nan_to_num(_scale_to(g, limit))
    ),
    "are scaled if their norm is below max_norm, and not if it is above": (
        lambda g, limit: _scale_to(g, limit) if _norm(g) < limit else _flat(g)
    ),
    "are not a number if all are 0: 0 / 0": (
        lambda g, limit: (
            _flat(g) * np.minimum(1.0, np.float64(limit) / _norm(g)) if _norm(g) else _scale_to(g, limit)
        )
    ),
    "get the norm 1, not max_norm": lambda g, limit: _flat(g) / (_norm(g) if _norm(g) > limit else 1.0),
    "are multiplied by max_norm, without the division by the norm": (
        lambda g, limit: _flat(g) * (limit if _norm(g) > limit else 1.0)
    ),
    "are divided by max_norm: the factor is max_norm / norm": (
        lambda g, limit: _flat(g) / (limit if _norm(g) > limit else 1.0)
    ),
    "are multiplied by norm / max_norm: the factor is upside down": (
        lambda g, limit: _flat(g) / _factor(g, limit)
    ),
    "are multiplied by norm / max_norm where that is below 1: the factor is upside down": (
        lambda g, limit: _flat(g) * min(1.0, _norm(g) / limit)
    ),
    "are divided by the square of the norm": (
        lambda g, limit: _flat(g) * (limit / _norm(g) ** 2 if _norm(g) > limit else 1.0)
    ),
    "are cut at max_norm, number by number, and not at -max_norm; one factor for all is wanted": (
        lambda g, limit: np.minimum(_flat(g), limit)
    ),
    "become 0 if the norm is above max_norm: the direction is to be kept": (
        lambda g, limit: _flat(g) * (_norm(g) <= limit)
    ),
}


def _call(arrays: Arrays, limit: float) -> str:
    return f"clip_norm, norm {_norm(arrays):.6g}, max_norm={limit}"


def check(answer: ModuleType) -> None:
    check_cases(
        answer.clip_norm,
        _cases(),
        lambda g, limit: _norm(g),
        {f"the norm {words}": wrong for words, wrong in WRONG_NORMS.items()},
        lambda g, limit: f"{_call(g, limit)}: the norm",
        "The root of the sum of the squares of all numbers of all arrays.",
        by_luck=True,
        count=2,
        part=1,
    )

    def clip_norm(gradients: Arrays, limit: float) -> np.ndarray:
        clipped, _ = answer.clip_norm(gradients, limit)
        _check_shapes(clipped, gradients)
        return _flat(clipped)

    check_cases(
        clip_norm,
        _cases(),
        lambda g, limit: _flat(g) * _factor(g, limit),
        {f"the gradients {words}": wrong for words, wrong in WRONG_GRADIENTS.items()},
        lambda g, limit: f"{_call(g, limit)}: all numbers",
        "Above max_norm, all arrays are multiplied by one factor, so that their norm becomes max_norm.",
        by_luck=True,
    )


def _check_shapes(clipped: object, gradients: Arrays) -> None:
    expected = [list(g.shape) for g in gradients]
    if not isinstance(clipped, (list, tuple)):
        raise Wrong("clip_norm returns something other than a list of arrays", "Keep one array for each.")
    shapes = [list(np.shape(g)) for g in clipped]
    if shapes != expected:
        raise Wrong(f"the clipped gradients have shapes {shapes}, expected {expected}", "Keep their shapes.")
