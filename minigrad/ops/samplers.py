"""Valid inputs for the ops, which the gradient check, the tests and the benchmarks use.

A *domain* draws an array of a shape: `real`, `positive`, `distinct` (far from ties and kinks), ...
A *sampler* draws a list of Samples from a random generator: `unary(domain)` and `binary(domain)` have the
shapes that most ops need; an op that needs others lists them with `cases`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Domain = Callable[..., np.ndarray]  # (generator, *shape) -> array


class Sample(NamedTuple):
    """One call: float64 arrays in `args` (also within lists) are inputs, and all else is passed unchanged."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    symmetric: bool = False  # whether the op gets the symmetric parts of the matrices (see `of_symmetric`)


Sampler = Callable[..., Sequence[Sample]]  # its argument is a np.random.Generator, which is slow to import


# ---------------------------------------------------------------- domains


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normally distributed numbers."""
    return np.asarray(rng.normal(size=shape))


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from 0.5 to 2."""
    return np.asarray(rng.uniform(0.5, 2.0, shape))


def above_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from 1.2 to 3."""
    return np.asarray(rng.uniform(1.2, 3.0, shape))


def within_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from -0.9 to 0.9."""
    return np.asarray(rng.uniform(-0.9, 0.9, shape))


def probability(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from 0.1 to 0.9."""
    return np.asarray(rng.uniform(0.1, 0.9, shape))


def distinct(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers 0.4 apart and at least 0.1 from 0, so that finite differences do not cross a tie or a kink."""
    n = int(np.prod(shape))
    return np.asarray((rng.permutation(n) * 0.4 - 0.2 * n + 0.1).reshape(shape))


def away_from_zero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from 0.5 to 2 in absolute value, of either sign."""
    return np.asarray(rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape))


def mask(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Booleans, each True with probability 1/2."""
    return np.asarray(rng.random(shape) < 0.5)


def integers(low: int, high: int) -> Domain:
    """Integers in [low, high)."""
    return lambda rng, *shape: np.asarray(rng.integers(low, high, shape))


def symmetric(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric positive definite matrices, well conditioned."""
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


def invertible(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices of full rank that are far from singular."""
    return rng.normal(size=shape) * 0.5 + shape[-1] * np.eye(shape[-2], shape[-1])


# ---------------------------------------------------------------- samplers


class cases:
    """Samples written out: `cases((real, 2, 3), dim=1)` draws one; add more with `|`.

    A tuple that begins with a domain is drawn, also within a list; anything else is passed unchanged.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.calls = [(args, kwargs)]

    def __or__(self, other: cases) -> cases:
        both = cases()
        both.calls = self.calls + other.calls
        return both

    def __call__(self, rng: np.random.Generator) -> list[Sample]:
        return [
            Sample(tuple(_draw(rng, a) for a in args), {k: _draw(rng, v) for k, v in kwargs.items()})
            for args, kwargs in self.calls
        ]


def of_symmetric(sampler: Sampler) -> Sampler:
    """Samples for a function that reads one triangle of a symmetric matrix, and has a symmetric gradient."""
    return lambda rng: [sample._replace(symmetric=True) for sample in sampler(rng)]


def _draw(rng: np.random.Generator, thing: Any) -> Any:
    if isinstance(thing, tuple) and thing and callable(thing[0]):
        domain, *shape = thing
        return domain(rng, *shape)
    return [_draw(rng, item) for item in thing] if isinstance(thing, list) else thing


def unary(domain: Domain, **settings: Any) -> cases:
    """Samples with one operand: a matrix, a number, an empty matrix, and an array with three axes."""
    return (
        cases((domain, 2, 3), **settings)
        | cases((domain,), **settings)
        | cases((domain, 2, 0), **settings)
        | cases((domain, 2, 1, 2), **settings)
    )


def binary(domain: Domain, second: Domain | None = None, **settings: Any) -> cases:
    """Samples with two operands, of one shape or of shapes that broadcast."""
    other = second or domain
    return (
        cases((domain, 2, 3), (other, 2, 3), **settings)
        | cases((domain, 2, 3), (other, 3), **settings)
        | cases((domain, 2, 1), (other, 1, 3), **settings)
        | cases((domain,), (other, 2, 2), **settings)
    )


def along_axis(domain: Domain, **settings: Any) -> cases:
    """Samples for a function that takes one axis, `dim`."""
    return (
        cases((domain, 2, 3), dim=0, **settings)
        | cases((domain, 2, 3), dim=-1, **settings)
        | cases((domain, 2, 3, 2), dim=1, **settings)
        | cases((domain, 4), dim=0, **settings)
    )


def reducing(domain: Domain, **settings: Any) -> cases:
    """Samples for a reduction over all axes, one or several, with and without `keepdim`."""
    return (
        cases((domain, 2, 3), **settings)
        | cases((domain, 2, 3), dim=1, **settings)
        | cases((domain, 2, 3), dim=0, keepdim=True, **settings)
        | cases((domain, 2, 3, 2), dim=(0, -1), **settings)
        | cases((domain,), **settings)
    )


each = cases  # its name in version 0.2
