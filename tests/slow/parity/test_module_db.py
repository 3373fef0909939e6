"""PyTorch's own module database: every sample of every module that minigrad has, in training and evaluation.

Outputs, first gradients of inputs and parameters, what becomes of buffers, and where PyTorch defines them
second gradients, in float64; outputs in float32 too. What PyTorch refuses is refused. What minigrad does not
have, or does otherwise, is named, with the reason, in module_db_left_out.toml.
"""

import inspect
import re
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from tests.golden.entries import flat

from .comparing import Converter, assert_equal, compare_gradients

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's testing package wants it
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),
]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

LEFT_OUT = tomllib.loads((Path(__file__).parent / "module_db_left_out.toml").read_text(encoding="utf-8"))
ENTRIES = {info.module_cls.__name__: info for info in module_db}
COVERED = [name for name in ENTRIES if hasattr(nn, name)]
RECURRENT = ("GRU", "LSTM", "RNN")  # their samples have no dropout, so they compute the same in evaluation
REFUSING = [name for name in COVERED if ENTRIES[name].module_error_inputs_func]


def samples_of(name, dtype):
    """The samples of a module, with whether they are of training."""
    info = ENTRIES[name]
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        for sample in info.module_inputs_func(info, "cpu", dtype, dtype == torch.float64, training):
            yield sample, training


def both(name, sample, dtype, convert):
    """PyTorch's module and ours, with the same weights."""
    args = sample.constructor_input.args
    kwargs = sample.constructor_input.kwargs
    theirs = ENTRIES[name].module_cls(*args, **kwargs).to(dtype)
    kwargs = {key: converted_function(value) or convert(value) for key, value in kwargs.items()}
    ours = getattr(nn, name)(*convert(args), **kwargs).to(str(dtype).removeprefix("torch."))
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    for (path, p), (own, q) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        assert path == own
        convert.pairs.append((p, q))
    return theirs, ours


def converted_function(value):
    """Our function of PyTorch's, as a module's activation or distance is."""
    return getattr(nn.functional, value.__name__, None) if callable(value) else None


def check_sample(name, sample, training, dtype):
    convert = Converter()
    theirs, ours = both(name, sample, dtype, convert)
    args = sample.forward_input.args
    kwargs = sample.forward_input.kwargs
    our_args, our_kwargs = convert(args), convert(kwargs)
    theirs.train(training)
    ours.train(training)
    t_outs = flat(theirs(*args, **kwargs), torch.Tensor)
    m_outs = flat(ours(*our_args, **our_kwargs), mg.Tensor)
    named = dict(zip(inspect.signature(theirs.forward).parameters, our_args, strict=False))
    if not training or not ENTRIES[name].train_and_eval_differ:  # by PyTorch's names
        for a, b in zip(flat(ours(**named, **our_kwargs), mg.Tensor), m_outs, strict=True):
            assert np.array_equal(a.array, b.array, equal_nan=True)
    assert len(m_outs) == len(t_outs), f"{len(m_outs)} results, not {len(t_outs)}"
    for i, (a, b) in enumerate(zip(m_outs, t_outs, strict=True)):
        assert_equal(a, b, f"value of result {i}")
    for (key, b), (own, a) in zip(theirs.named_buffers(), ours.named_buffers(), strict=True):
        assert key == own
        assert_equal(a, b, key)
    if dtype == torch.float64:
        twice = ENTRIES[name].supports_gradgrad and (training or name not in RECURRENT)
        again = lambda: flat(ours(*our_args, **our_kwargs), mg.Tensor)
        compare_gradients(convert.pairs, m_outs, t_outs, again, twice)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", COVERED)
def test_every_sample_agrees(name, dtype):
    count = 0
    failures = []
    for sample, training in samples_of(name, dtype):
        if any(f"{name}, {key}={x!r}" in LEFT_OUT for key, x in sample.constructor_input.kwargs.items()):
            continue
        count += 1
        try:
            check_sample(name, sample, training, dtype)
        except Exception as error:  # every failing sample is worth seeing at once
            said = " ".join(str(error).split())[:300]
            given = sample.constructor_input.args, sample.constructor_input.kwargs
            failures.append(f"{sample.desc} {given}, training={training}\n    {type(error).__name__}: {said}")
    assert count, "the database has no sample"
    assert not failures, f"{len(failures)} of {count} samples:\n" + "\n".join(failures[:8])


def refusal(make, sample, on_construction):
    """The error of a module that is made, or called, with what it does not take."""
    try:
        module = make(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        if not on_construction:
            module(*sample.forward_input.args, **sample.forward_input.kwargs)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", REFUSING)
def test_calls_rejected_by_pytorch_are_rejected(name):
    info = ENTRIES[name]
    failures = []
    for error in info.module_error_inputs_func(info, "cpu", torch.float64, False, True):
        sample = error.module_error_input
        on_construction = error.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR
        wanted = refusal(info.module_cls, sample, on_construction)
        assert isinstance(wanted, error.error_type)
        convert = Converter()
        for part in (sample.constructor_input, sample.forward_input):
            if part is not None:
                part.args, part.kwargs = convert(part.args), convert(part.kwargs)
        found = refusal(getattr(nn, name), sample, on_construction)
        if f"{name}, refusing {error.error_regex}" in LEFT_OUT:
            continue
        if not isinstance(found, mg.errors.MinigradError):
            failures.append(f"{error.error_regex}: {type(found).__name__}: {found}")
    assert not failures, "\n".join(failures)


def test_every_module_is_covered_or_left_out_with_a_reason():
    missing = [name for name in ENTRIES if name not in COVERED and name not in LEFT_OUT]
    assert not missing, f"{len(missing)} modules: {missing}"
    assert all(LEFT_OUT.values())
    stale = [key for key in LEFT_OUT if re.split(", ", key)[0] not in ENTRIES or key in COVERED]
    assert not stale, f"reasons for what is no entry, or is here: {stale}"
