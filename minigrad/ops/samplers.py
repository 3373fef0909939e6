"""Valid inputs for each op, by name: what the gradient check, the tests and the benchmarks try it on.

A *domain* draws an array of a shape: `real`, `positive`, `distinct` (far from ties and kinks), ...
A *sampler* draws a list of Samples from a random generator: `unary(domain)` and `binary(domain)` have the
shapes that most ops need; what is awkward writes its own out with `cases`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Domain = Callable[..., np.ndarray]  # (generator, *shape) -> array


class Sample(NamedTuple):
    """One call: float64 arrays in `args` (also within lists) are inputs, all else is passed unchanged."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    symmetric: bool = False  # matrices are inputs by their symmetric part, see `of_symmetric`


Sampler = Callable[..., Sequence[Sample]]  # takes a np.random.Generator, which is slow to import


# ---------------------------------------------------------------- domains


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers."""
    return np.asarray(rng.normal(size=shape))


def positive(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """From 0.5 to 2."""
    return np.asarray(rng.uniform(0.5, 2.0, shape))


def above_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """From 1.2 to 3."""
    return np.asarray(rng.uniform(1.2, 3.0, shape))


def within_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """From -0.9 to 0.9."""
    return np.asarray(rng.uniform(-0.9, 0.9, shape))


def probability(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """From 0.1 to 0.9."""
    return np.asarray(rng.uniform(0.1, 0.9, shape))


def distinct(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers 0.4 apart and none nearer than 0.1 to 0, so that no step of finite differences meets a kink."""
    n = int(np.prod(shape))
    return np.asarray((rng.permutation(n) * 0.4 - 0.2 * n + 0.1).reshape(shape))


def away_from_zero(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """From 0.5 to 2, of either sign."""
    return np.asarray(rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape))


def mask(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """True or False."""
    return np.asarray(rng.random(shape) < 0.5)


def integers(low: int, high: int) -> Domain:
    """Integers from `low` to before `high`."""
    return lambda rng, *shape: np.asarray(rng.integers(low, high, shape))


def symmetric(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Symmetric positive definite matrices, well conditioned."""
    a = rng.normal(size=shape)
    return a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


def invertible(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices of full rank, far from those of a smaller one."""
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
    """Samples of a function that reads one triangle; its derivative is that of a symmetric matrix."""
    return lambda rng: [sample._replace(symmetric=True) for sample in sampler(rng)]


def _draw(rng: np.random.Generator, thing: Any) -> Any:
    if isinstance(thing, tuple) and thing and callable(thing[0]):
        domain, *shape = thing
        return domain(rng, *shape)
    return [_draw(rng, item) for item in thing] if isinstance(thing, list) else thing


def unary(domain: Domain, **settings: Any) -> cases:
    """A matrix, a number, nothing at all, and three axes."""
    return (
        cases((domain, 2, 3), **settings)
        | cases((domain,), **settings)
        | cases((domain, 2, 0), **settings)
        | cases((domain, 2, 1, 2), **settings)
    )


def binary(domain: Domain, second: Domain | None = None, **settings: Any) -> cases:
    """Two operands of one shape, and operands that broadcast against each other."""
    other = second or domain
    return (
        cases((domain, 2, 3), (other, 2, 3), **settings)
        | cases((domain, 2, 3), (other, 3), **settings)
        | cases((domain, 2, 1), (other, 1, 3), **settings)
        | cases((domain,), (other, 2, 2), **settings)
    )


def along_axis(domain: Domain, **settings: Any) -> cases:
    """Return sample cases for a function that takes `dim`."""
    return (
        cases((domain, 2, 3), dim=0, **settings)
        | cases((domain, 2, 3), dim=-1, **settings)
        | cases((domain, 2, 3, 2), dim=1, **settings)
        | cases((domain, 4), dim=0, **settings)
    )


def reducing(domain: Domain, **settings: Any) -> cases:
    """A function over all axes, one, or several, with and without `keepdim`."""
    return (
        cases((domain, 2, 3), **settings)
        | cases((domain, 2, 3), dim=1, **settings)
        | cases((domain, 2, 3), dim=0, keepdim=True, **settings)
        | cases((domain, 2, 3, 2), dim=(0, -1), **settings)
        | cases((domain,), **settings)
    )


each = cases  # its name in version 0.2
