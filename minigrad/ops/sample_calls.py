"""Calls of an op on its own samples, for tools and tests that check every op."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.op import Op, OpInfo
from ..core.tensor import Tensor
from .samplers import Sample


def samples_of(record: OpInfo, seed: int = 0) -> list[Sample]:
    """The samples of an op or a derived function, which depend only on the seed and its name."""
    if record.samples is None:
        return []
    return list(record.samples(np.random.default_rng([seed, zlib.crc32(record.name.encode())])))


def as_function(
    record: OpInfo, sample: Sample, dtype: str = "float64"
) -> tuple[Callable[..., Any], list[Tensor]]:
    """Return a function that calls an op on a sample, given its floating inputs, and these inputs.

    The inputs require gradients. Other arrays of the sample are passed as tensors if they are operands, and
    unchanged if they are settings.
    """
    inputs: list[Tensor] = []
    arity = record.arity if isinstance(record, Op) else len(sample.args)

    def prepared(x: Any, place: int, of: Iterator[Tensor] | None) -> Any:
        """x with its floating arrays collected into `inputs`, or replaced by the next ones of `of`."""
        if isinstance(x, list):
            return [prepared(item, place, of) for item in x]
        if not isinstance(x, np.ndarray) or place >= arity:
            return x
        if x.dtype != np.float64:
            return Tensor(x)
        if of is not None:
            return next(of)
        inputs.append(Tensor(x.astype(dtype), requires_grad=True))
        return x

    def function(*leaves: Tensor) -> Any:
        each = iter([(x + x.mT) / 2 for x in leaves] if sample.symmetric else leaves)
        args = [prepared(x, place, each) for place, x in enumerate(sample.args)]
        return record.call(*args, **sample.kwargs)

    for place, x in enumerate(sample.args):
        prepared(x, place, None)
    return function, inputs


def floating(result: Any) -> list[Tensor]:
    """The floating-point tensors among an op's results."""
    outs = result if isinstance(result, tuple | list) else [result]
    return [out for out in outs if isinstance(out, Tensor) and out.is_floating_point()]


def forms(record: OpInfo) -> list[bool]:
    """The values of `fused` to check an op with: True, and False if it has a readable definition."""
    return [True, False] if isinstance(record, Op) and record.definition else [True]
