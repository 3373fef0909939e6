"""Tensors that require gradients, and what is asked of them in several folders."""

import math

import numpy as np
import pytest

import minigrad as mg

INF = math.inf


def leaf(array, dtype="float64"):
    return mg.tensor(np.array(array, dtype=dtype), requires_grad=True)


def assert_equal(x, expected, rtol=1e-12, atol=0.0):
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
