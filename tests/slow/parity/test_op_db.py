"""PyTorch's own operator database: every sample of every entry that minigrad has a function for.

Values, first gradients and, where PyTorch defines them, second gradients in float64. What minigrad does not
have is named, with the reason, in op_db_left_out.toml.
"""

import fnmatch
import random
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.golden.entries import flat, on_valid_matrices, ours_of

from .comparing import Converter, assert_equal, compare_gradients

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # PyTorch's testing package wants it
pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore"),
]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

# the database looks in the stack for a test of PyTorch's own, and sets the seed of each kind of device, at
# every sample: most of its time
core.extract_test_fn = common_utils.extract_test_fn = lambda: None


def seed_cpu(seed):
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


common_utils.set_rng_seed = seed_cpu

LEFT_OUT = tomllib.loads((Path(__file__).parent / "op_db_left_out.toml").read_text(encoding="utf-8"))
ENTRIES = {op.name + (f"/{op.variant_test_name}" if op.variant_test_name else ""): op
           for op in op_db if torch.float64 in op.dtypes}  # fmt: skip


def left_out(name):
    return any(fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in LEFT_OUT)


COVERED = [name for name in ENTRIES if ours_of(name) and not left_out(name)]


# entries whose second derivative is NaN at 0 in PyTorch, and 0 here
NAN_IN_TORCH = {"linalg.norm"}


def as_compared(op, function, sample):
    """`function` as PyTorch checks it: of valid matrices; the part of its results that is unique."""
    symmetric = op.gradcheck_wrapper.__name__ == "gradcheck_wrapper_hermitian_input"
    call = on_valid_matrices(function, op.name, symmetric)
    return lambda *args, **kwargs: sample.output_process_fn_grad(call(*args, **kwargs))


def check_sample(op, function, sample):
    convert = Converter()
    args = convert((sample.input, *sample.args))
    kwargs = convert(sample.kwargs)
    function = as_compared(op, function, sample)
    theirs = flat(as_compared(op, op, sample)(sample.input, *sample.args, **sample.kwargs), torch.Tensor)
    ours = flat(function(*args, **kwargs), mg.Tensor)
    assert len(ours) == len(theirs), f"{len(ours)} results, not {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert_equal(a, b, f"value of result {i}")
    if op.supports_autograd:
        again = lambda: flat(function(*args, **kwargs), mg.Tensor)
        compare_gradients(convert.pairs, ours, theirs, again, op.supports_gradgrad, op.name in NAN_IN_TORCH)


@pytest.mark.parametrize("name", COVERED)
def test_every_sample_agrees(name):
    op = ENTRIES[name]
    function = ours_of(name)
    torch.manual_seed(0)
    count = 0
    failures = []
    for sample in op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd):
        count += 1
        try:
            check_sample(op, function, sample)
        except Exception as error:  # every failing sample is worth seeing at once
            said = " ".join(str(error).split())[:300]
            failures.append(f"{sample.summary()}\n    {type(error).__name__}: {said}")
    assert count, "the database has no sample"
    assert not failures, f"{len(failures)} of {count} samples:\n" + "\n".join(failures[:6])


def draws_nothing(sample):
    """Whether dropout, with these settings, drops nothing or all."""
    settings = {"p": 0.5, "training": True} | sample.kwargs
    return settings.get("dropout_p", settings["p"] if settings["training"] else 0) in (0, 1)


@pytest.mark.parametrize("name", ["alpha_dropout", "dropout", "dropout2d", "dropout3d",
                                  "scaled_dot_product_attention"])  # fmt: skip
def test_samples_of_dropout_that_draw_nothing_agree(name):
    op = ENTRIES[f"nn.functional.{name}"]
    samples = [s for s in op.sample_inputs("cpu", torch.float64, requires_grad=True) if draws_nothing(s)]
    assert samples
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # it has second gradients
        for sample in samples:
            check_sample(op, getattr(F, name), sample)


def test_every_entry_is_covered_or_left_out_with_a_reason():
    missing = [name for name in ENTRIES if not ours_of(name) and not left_out(name)]
    assert not missing, f"{len(missing)} entries: {missing}"
    assert all(LEFT_OUT.values())
    stale = [pattern for pattern in LEFT_OUT if not fnmatch.filter(ENTRIES, pattern)]
    assert not stale, f"reasons for what is no entry: {stale}"


def test_the_page_says_how_many_entries_are_covered():
    assert len(COVERED) >= 200
    page = (Path(__file__).parents[3] / "docs" / "results.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    assert f"Of the {len(ENTRIES)} float64 entries of PyTorch's own operator database" in page
    assert f"database, {len(COVERED)} have a function here" in page
