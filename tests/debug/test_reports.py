"""The truth of a report: `assert mg.gradcheck(f, x, raise_exception=False)` fails where `f` is wrong."""

import dataclasses
import importlib
import pkgutil

import numpy as np
import pytest

import minigrad as mg
import minitransformer
from minigrad import nn
from minitransformer.runs.checks import Outcome

X = mg.tensor([1.0, 2.0], dtype="float64", requires_grad=True)


def square(x):
    return x * x


def half_detached(x):
    """A square whose gradient misses a part."""
    return x * x.detach()


def checked(f, x=X):
    return mg.gradcheck(f, x, raise_exception=False)


def loaded(**state):
    return nn.Linear(1, 1).load_state_dict({"weight": np.ones((1, 1)), **state}, strict=False)


# what is right, and what is not
REPORTS = {
    "gradcheck": lambda: (checked(square), checked(half_detached)),
    "gradcheck, of a second derivative": lambda: (mg.gradcheck(square, X, order=2),
        mg.gradcheck(lambda x: x * x + x * (x * x).detach(), X, order=2, raise_exception=False)),
    "gradcheck's inputs": lambda: (checked(square).inputs[0], checked(half_detached).inputs[0]),
    "a sweep over steps": lambda: (mg.gradcheck_sweep(square, X), mg.gradcheck_sweep(half_detached, X)),
    "why_nan": lambda: (mg.graph.why_nan((X + 1).log().sum()), mg.graph.why_nan((X - 1).log().sum())),
    "load_state_dict, what is missing": lambda: (loaded(bias=np.ones(1)), loaded()),
    "a check of a run": lambda: (Outcome("causality", True, ""), Outcome("causality", False, "")),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_truthy_only_if_they_passed(name):
    right, wrong = REPORTS[name]()
    assert bool(right), right
    assert not bool(wrong), wrong


def test_a_shadow_report_is_truthy_only_without_differences():
    from minigrad.debug.shadow import Shadow

    assert Shadow(operations=3)
    assert not Shadow(operations=3, first="matmul differs")


def every_class():
    for package in (mg, minitransformer):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                yield from vars(importlib.import_module(module.name)).values()


def test_every_class_with_a_verdict_defines_bool():
    kinds = {kind for kind in every_class() if isinstance(kind, type) and kind.__module__.startswith("mini")}
    verdicts = {"passed", "verdict"}
    fields = lambda kind: dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    verdict_kinds = [k for k in kinds if {*vars(k), *(field.name for field in fields(k))} & verdicts]
    found = {kind.__name__ for kind in verdict_kinds}
    assert {"GradcheckReport", "InputErrors", "Shadow", "Outcome", "Check"} <= found
    assert not [kind.__name__ for kind in verdict_kinds if not hasattr(kind, "__bool__")]
