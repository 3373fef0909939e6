"""A function that checks an op on its samples, for `python -m minigrad gradcheck` and the tests."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ..core.errors import MinigradError
from ..core.modes import fused
from ..core.op import OpInfo
from ..ops.sample_calls import as_function, floating, samples_of
from .check import gradcheck
from .report import GradcheckReport

# tighter than gradcheck's defaults, since finite differences are precise at the samples
ATOL = 1e-6
RTOL = 1e-5


@dataclass
class Row:
    """The results of one op on all its samples, a row of the printed table."""

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


def check_op(info: OpInfo, orders: tuple[int, ...], eps: float, seed: int, fuse: bool) -> Row:
    """Check one op on its samples, at each order. A MinigradError counts as a failure."""
    row = Row(info.name, "" if fuse else "readable")
    start = time.perf_counter()
    with fused(fuse), np.errstate(all="ignore"):
        for number, sample in enumerate(samples_of(info, seed)):
            row.samples += 1
            try:
                function, inputs = as_function(info, sample)
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
