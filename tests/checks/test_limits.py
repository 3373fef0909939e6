"""What a gradient check finds, leaves alone and keeps."""

import gc
import weakref

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import differentiable


def test_beside_a_jump_not_any_slope_passes():
    @differentiable
    def floor_with_a_slope(x, /):
        return np.floor(x), (lambda g: g * 5.0,)

    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with pytest.raises(mg.GradcheckError, match="wrong only at a jump"):
        mg.gradcheck(floor_with_a_slope, x)
    assert mg.gradcheck(mg.floor, x).kinks[0].jump


def test_a_check_under_no_grad_finds_the_gradient():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with mg.no_grad():
        assert mg.gradcheck(mg.exp, x).passed
        assert mg.gradcheck_sweep(mg.exp, x).kind == "right"


def test_a_check_leaves_a_modules_buffers_alone():
    norm = mg.nn.BatchNorm1d(2).double()
    before = [buffer.array.copy() for buffer in norm.buffers()]
    x = mg.tensor(np.arange(6.0).reshape(3, 2) ** 2)
    assert mg.gradcheck(lambda: norm(x), norm).passed
    for buffer, array in zip(norm.buffers(), before, strict=True):
        np.testing.assert_array_equal(buffer.array, array)


def test_a_check_keeps_nothing_alive():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    seen = []

    def watched(x):
        seen.append(weakref.ref(x))
        return x.exp()

    gc.collect()
    gc.disable()
    try:
        mg.gradcheck(watched, x)
        assert seen[0]() is None
    finally:
        gc.enable()
