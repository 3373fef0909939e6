"""What tests of gradients share."""

import numpy as np

import minigrad as mg


def leaf(*data, shape=None):
    array = np.array(data, dtype=np.float64)
    return mg.tensor(array if shape is None else array.reshape(shape), requires_grad=True)


def assert_equal(x, expected, rtol=1e-12, atol=1e-14):
    with mg.no_grad():
        np.testing.assert_allclose(np.asarray(x), expected, rtol=rtol, atol=atol)
