"""PyTorch's own optimizer database: all configurations of every optimizer that minigrad has.

Several steps of one group or two, in one of which a gradient is missing, in float64. What PyTorch refuses is
refused. What minigrad does not have, or does otherwise, is named, with the reason, in optim_db_left_out.toml.
"""

import copy
import tomllib
import warnings
from pathlib import Path

import pytest

import minigrad as mg
from minigrad import optim
from tests.golden.entries import trained

from .comparing import Converter, assert_equal

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's testing package wants it
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

LEFT_OUT = tomllib.loads((Path(__file__).parent / "optim_db_left_out.toml").read_text(encoding="utf-8"))
ENTRIES = {info.optim_cls.__name__: info for info in optim_db}
COVERED = [name for name in ENTRIES if hasattr(optim, name)]


@pytest.mark.parametrize(
    ("name", "groups"),
    [(name, groups) for name in COVERED for groups in sorted({False, ENTRIES[name].supports_param_groups})],
)
def test_every_configuration_takes_the_same_steps(name, groups, monkeypatch):
    info = ENTRIES[name]
    failures = []
    # in which PyTorch's Muon computes whatever the dtype is
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x)
    configurations = list(info.optim_inputs_func("cpu"))
    assert configurations
    for one in configurations:
        if f"settings, {one.desc.lower()}" in LEFT_OUT:
            continue
        try:
            theirs = trained(torch, name, copy.deepcopy(one.kwargs), groups, info.step_requires_closure)
            ours = trained(mg, name, one.kwargs, groups, info.step_requires_closure)
            for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
                assert_equal(a, b, f"result {i}")
        except Exception as error:  # every failing configuration is worth seeing at once
            said = " ".join(str(error).split())[:300]
            failures.append(f"{one.desc} {one.kwargs}\n    {type(error).__name__}: {said}")
    assert not failures, f"{len(failures)} of {len(configurations)}:\n" + "\n".join(failures)


def refusal(name, error):
    """The error of our optimizer that is made, or steps, with what PyTorch's does not take."""
    convert = Converter()
    given = error.optimizer_error_input
    try:
        parameters = mg.ones(2, 2, requires_grad=True) if given.params is None else convert(given.params)
        one = [parameters] if given.params is None else parameters
        optimizer = getattr(optim, name)(one, **convert(given.kwargs))
        if error.error_on != OptimizerErrorEnum.CONSTRUCTION_ERROR:
            optimizer.step()
    except Exception as found:
        return found
    return None


@pytest.mark.parametrize("name", COVERED)
def test_calls_rejected_by_pytorch_are_rejected(name):
    failures = []
    for error in ENTRIES[name].optim_error_inputs_func("cpu", torch.float64):
        found = refusal(name, error)
        key = f"refusing, {error.error_regex}"
        if key not in LEFT_OUT and not isinstance(found, mg.errors.MinigradError):
            failures.append(f"{error.error_regex}: {type(found).__name__}: {found}")
    assert not failures, "\n".join(failures)


def test_every_optimizer_is_covered_or_left_out_with_a_reason():
    missing = [name for name in ENTRIES if name not in COVERED and name not in LEFT_OUT]
    assert not missing, f"{len(missing)} optimizers: {missing}"
    assert all(LEFT_OUT.values())
    stale = [
        key
        for key in LEFT_OUT
        if key.split(", ")[0] not in (*ENTRIES, "settings", "refusing") or key in COVERED
    ]
    assert not stale, f"reasons for what is no entry, or is here: {stale}"
