"""Random numbers with elementwise parameters given by a tensor, without gradients."""

from __future__ import annotations

import numpy as np

from ..core import random
from ..core.devices import on_cpu
from ..core.dtypes import float64, int64, is_floating
from ..core.errors import DtypeError, OptionError, ShapeError
from ..core.tensor import Tensor, constant
from . import draws
from .checked import check_all
from .creation import rand

__all__ = ["bernoulli", "multinomial", "poisson"]


def bernoulli(input: Tensor, p: float | None = None, *, generator: random.Generator | None = None) -> Tensor:
    """Draw 1 with the probability given by each element (or with probability p for all), else 0."""
    chances = _as_float64("bernoulli", input)
    if p is not None:
        chances = np.full(chances.shape, p)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise OptionError(
            "bernoulli needs probabilities between 0 and 1.\nCheck them for NaN, or apply sigmoid()."
        )
    drawn = rand(input.shape, generator=generator, dtype=float64).array < chances
    return constant(drawn.astype(input.dtype), input)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: random.Generator | None = None,
) -> Tensor:
    """Draw `num_samples` class indices for each row of weights, which need not sum to 1.

    Without replacement, no class is drawn twice: the classes with the smallest e_i / weight_i, where the e_i
    are exponentially distributed, are such a draw, in order (Efraimidis and Spirakis 2006).
    """
    weights = _as_float64("multinomial", input)
    if weights.ndim not in (1, 2):
        raise ShapeError(
            f"multinomial got shape {input.shape}.\nPass weights of shape (classes,) or (rows, classes)."
        )
    classes = weights.shape[-1]
    if not 1 <= num_samples <= (num_samples if replacement else classes):
        how = "" if replacement else " without replacement"
        raise OptionError(
            f"multinomial cannot draw {num_samples} of {classes} classes{how}.\n"
            f"Draw at least one; to draw more than there are, pass replacement=True."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all() or not (weights > 0).any(-1).all():
        raise OptionError(
            "multinomial needs finite weights >= 0 with a positive sum in each row.\n"
            "Check them for NaN, or apply softmax()."
        )
    positive = int((weights > 0).sum(-1).min(initial=classes))
    if not replacement and positive < num_samples:
        raise OptionError(
            f"multinomial cannot draw {num_samples} classes without replacement: only {positive} have a "
            f"weight > 0.\nDraw at most {positive}."
        )
    if (weights > np.finfo(float64).max / classes).any():  # their sum may overflow
        weights = weights / weights.max(-1, keepdims=True)
    if replacement:
        sums = np.cumsum(np.atleast_2d(weights), axis=-1)
        sums /= sums[:, -1:]
        places = rand((len(sums), num_samples), generator=generator, dtype=float64).array
        rows = [np.searchsorted(s, u, side="right") for s, u in zip(sums, places, strict=True)]
        drawn = np.array(rows, int64).reshape(*weights.shape[:-1], num_samples)
    else:
        noise = -np.log1p(-rand(weights.shape, generator=generator, dtype=float64).array)
        with np.errstate(divide="ignore", invalid="ignore"):
            arrivals = np.minimum(noise / weights, np.finfo(float64).max)  # less than the inf of weight 0
        arrivals = np.where(weights > 0, arrivals, np.inf)
        drawn = np.argsort(arrivals, axis=-1, kind="stable")[..., :num_samples]
    return constant(drawn, input)


def poisson(input: Tensor, generator: random.Generator | None = None) -> Tensor:
    """Draw Poisson-distributed numbers with the rate given by each element."""
    rates = _as_float64("poisson", input)
    if not (rates >= 0).all():
        raise OptionError("poisson needs rates >= 0.\nCheck them for NaN, or apply exp() or relu().")
    drawn = draws.generator(random.next_key("poisson", generator)).poisson(rates)
    return constant(np.asarray(drawn).astype(input.dtype), input)


def _as_float64(name: str, x: Tensor) -> np.ndarray:
    """x as a float64 array on the CPU, where random numbers are drawn."""
    if not isinstance(x, Tensor) or not is_floating(x.dtype):
        kind = f"{x.dtype}" if isinstance(x, Tensor) else type(x).__name__
        raise DtypeError(
            f"{name} takes a floating tensor, got {kind}.\nConvert it: mg.tensor(..., dtype='float32')."
        )
    return on_cpu(x.array, name).astype(float64)


check_all(globals(), __all__)
