"""Arguments that make no sense: every method of tensors says so itself."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import MinigradError
from minigrad.ops import METHODS
from tests.core.test_errors import IDS, A

ODDITIES = [
    None, "text", {}, [], [[1], [2, 3]], object(), 10**30, -7, 2.5, (), np.array("x"), np.nan, mg.ones(0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:x")  # what lists in an index mean
@pytest.mark.parametrize("name", sorted(METHODS))
def test_nonsense_arguments_raise_only_library_errors(name):
    for odd in ODDITIES:
        for arguments in ([odd], [odd, odd], [0, odd], [odd, 0]):
            for x in (A, mg.tensor(1.0), IDS):
                with np.errstate(all="ignore"):
                    error = raised_by(getattr(x, name), arguments)
                if isinstance(error, TypeError) and not isinstance(error, MinigradError):
                    assert "argument" in str(error), "too many or too few arguments for a plain function"
                elif error is not None:
                    assert isinstance(error, MinigradError), (name, arguments)
                    assert str(error).count("\n") >= 1, (name, arguments)


def raised_by(function, arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error
    return None
