"""A list of tensors that require gradients keeps its gradient in NumPy's functions, or is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.more.numpy_counterparts import counterparts
from minigrad.ops.samplers import Sample
from tests.leaves import for_each
from tests.ops.test_lists_of_tensors import as_tensors, as_they_are, check, sweep

V = np.array([0.2, 0.5, 0.9])
M = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.8]])
CALLS = [  # the first that NumPy takes is tried
    (M,), (V,), (M, M), (V, V), (M, V), (M, 2), (M, 0.5), (M, (3, 3)), ([M, M],), (M > 1, M, M),
    (M, 0, 1), (M, [2, 0, 1], 0), (V, V, V), (V, 0.1, 0.5), ("ij,jk->ik", M, M),
    (M, np.array([[0, 1, 2]]), 0),
]  # fmt: skip


def first_call(function):
    for args in CALLS:
        try:
            with np.errstate(all="ignore"):
                function(*args)
        except Exception:
            continue
        return args
    return None


def numpy_function(name):
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


UFUNCS = sorted(name for name in dir(np) if isinstance(getattr(np, name), np.ufunc))
FUNCTIONS = [
    *counterparts(mg.ops.methods.FUNCTIONS),
    *UFUNCS,
    "add.reduce",
    "multiply.outer",
    "add.accumulate",
]
FUNCTIONS += [
    "interp",
    "polyval",
    "full",
    "percentile",
    "trim_zeros",
    "convolve",
    "correlate",
    "nancumsum",
    "digitize",
]


@pytest.mark.filterwarnings("ignore")
@for_each([(name, wrap) for name in sorted(set(FUNCTIONS)) for wrap in (as_tensors, as_they_are)])
def test_numpys_functions_keep_it_or_refuse(name, wrap):
    function = numpy_function(name)
    args = function and first_call(function)
    if args is None:
        pytest.skip("NumPy has none of this name, or takes none of the arguments that are tried")
    check(sweep(function, [Sample(args, {})], wrap=wrap))
