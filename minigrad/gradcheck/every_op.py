"""Every op on its own samples: what `python -m minigrad gradcheck` and the tests check."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import MinigradError
from ..core.modes import fused
from ..core.op import Op, OpInfo
from ..core.samplers import Sample
from ..core.tensor import Tensor
from .check import gradcheck
from .report import GradcheckReport

ATOL, RTOL = 1e-6, 1e-5  # tighter than gradcheck's: finite differences are precise at the samples


def samples_of(record: OpInfo, seed: int = 0) -> list[Sample]:
    """The record's samples, which depend on the seed and the op's name only."""
    if record.samples is None:
        return []
    return list(record.samples(np.random.default_rng([seed, zlib.crc32(record.name.encode())])))


def as_function(
    record: OpInfo, sample: Sample, dtype: str = "float64"
) -> tuple[Callable[..., Any], list[Tensor]]:
    """A call of an op as a function of its floating inputs, and those inputs, which require gradients.

    Other arrays are passed as tensors if they are operands, unchanged if they are settings.
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
    """The floating ones of an op's result or results."""
    outs = result if isinstance(result, tuple | list) else [result]
    return [out for out in outs if isinstance(out, Tensor) and out.is_floating_point()]


@dataclass
class Row:
    """The result for one op on all its samples: a line of the table."""

    name: str
    form: str = ""  # "readable" if its definition was checked instead of its kernel
    samples: int = 0
    elements: int = 0
    worst: dict[int, float] = field(default_factory=dict)  # order -> relative error
    kinks: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.failures

    def __bool__(self) -> bool:
        return self.passed

    def add(self, number: int, report: GradcheckReport) -> None:
        self.elements += report.elements if report.order == min(self.worst, default=report.order) else 0
        self.worst[report.order] = max(self.worst.get(report.order, 0.0), report.relative_error)
        self.kinks += len(report.kinks)
        if not report.passed:
            self.failures.append(f"sample {number}: {report}")


def forms(record: OpInfo) -> list[bool]:
    """Fused, and if an op has a readable definition, that too."""
    return [True, False] if isinstance(record, Op) and record.definition else [True]


def check_record(record: OpInfo, orders: tuple[int, ...], eps: float, seed: int, fuse: bool) -> Row:
    """Check one op on its samples; a MinigradError counts as a failure."""
    row = Row(record.name, "" if fuse else "readable")
    start = time.perf_counter()
    with fused(fuse), np.errstate(all="ignore"):
        for number, sample in enumerate(samples_of(record, seed)):
            row.samples += 1
            try:
                function, inputs = as_function(record, sample)
                if not inputs or not floating(function(*inputs)):
                    continue
                for order in orders:
                    row.add(
                        number,
                        gradcheck(
                            lambda *xs, f=function: floating(f(*xs)),
                            inputs, eps, ATOL, RTOL, order, raise_exception=False,
                        ),
                    )  # fmt: skip
            except MinigradError as error:
                row.failures.append(f"sample {number}: {type(error).__name__}: {error}")
    row.seconds = time.perf_counter() - start
    return row
