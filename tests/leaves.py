"""Tensors that require gradients, and what is asked of them in several folders."""

import math

import numpy as np
import pytest

import minigrad as mg

INF = math.inf


def leaf(array, dtype="float64"):
    return mg.tensor(np.array(array, dtype=dtype), requires_grad=True)


def assert_equal(x, expected, rtol=1e-12, atol=0.0):
    with mg.no_grad():
        np.testing.assert_allclose(np.asarray(x), expected, rtol=rtol, atol=atol)


def gradient_of(function, x):
    x = leaf(x)
    with np.errstate(divide="ignore"):
        function(x).sum().backward()
    return x.grad.array


def vector(*values):
    return mg.tensor(list(values), requires_grad=True)


def message(call, error=mg.MinigradError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def for_each(cases):
    """Like `pytest.mark.parametrize`, but one test, which is faster; it names all cases that fail."""

    def decorate(check):
        def test():
            failed = []
            for case in cases:
                mg.manual_seed(0)
                try:
                    check(*case) if isinstance(case, tuple) else check(case)
                except pytest.skip.Exception:
                    continue
                except Exception as error:
                    failed.append(f"{case!r:.100}: {type(error).__name__}: {error}")
            assert not failed, f"{len(failed)} of {len(cases)}:\n" + "\n".join(failed[:8])

        test.__name__ = check.__name__
        test.__doc__ = check.__doc__
        return test

    return decorate
