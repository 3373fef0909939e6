"""On a GPU everything is as on the CPU: every op, its gradient and the gradient's gradient.

Where there is no GPU a stand-in for CuPy takes its place (`tests/standin`), which is as strict as CuPy is.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.gradcheck.records import as_function, floating, forms, samples_of
from minigrad.ops.record import Op, records
from minigrad.ops.samplers import Sample

OURS = {name: r for name, r in sorted(records.items()) if r.source.__module__.startswith("minigrad.")}


def moved(record, sample, device, dtype):
    """The sample with its constants on a device: tensors, or for an op's settings arrays, as rules take them.

    Its floating operands `as_function` sees to.
    """
    arity = record.arity if isinstance(record, Op) else len(sample.args)

    def move(x, operand):
        if type(x) in (list, tuple):
            return type(x)(move(item, operand) for item in x)
        if not isinstance(x, np.ndarray) or (operand and x.dtype == np.float64):
            return x
        there = mg.tensor(x.astype(dtype) if x.dtype == np.float64 else x, device=device)
        return there if operand or not isinstance(record, Op) else there.data

    args = tuple(move(x, place < arity) for place, x in enumerate(sample.args))
    return Sample(args, {name: move(x, False) for name, x in sample.kwargs.items()})


def results(record, sample, device, dtype):
    """All that a call gives, its gradients, and their gradients, as NumPy arrays."""
    function, inputs = as_function(record, moved(record, sample, device, dtype), dtype)
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    found = function(*inputs)
    outs = list(found) if isinstance(found, tuple | list) else [found]
    for out in outs:
        if isinstance(out, mg.Tensor):
            assert out.device == device
    given = [out.numpy() if isinstance(out, mg.Tensor) else out for out in outs]
    differentiable = [out for out in floating(found) if out.requires_grad]
    if not differentiable:
        return given
    draw = np.random.default_rng(1)
    weighted = lambda outs: sum(
        (out * mg.tensor(draw.uniform(0.5, 1.5, out.shape), dtype=dtype, device=device)).sum() for out in outs
    )
    loss = weighted(differentiable)
    first = mg.autograd.grad(loss, inputs, create_graph=True, allow_unused=True)
    known = [g for g in first if g is not None]
    assert all(g.device == device for g in known)
    given += [None if g is None else g.numpy() for g in first]
    curved = [g for g in known if g.requires_grad]
    if curved:
        second = mg.autograd.grad(weighted(curved), inputs, allow_unused=True)
        given += [None if g is None else g.numpy() for g in second]
    plain = mg.autograd.grad(weighted(floating(function(*inputs))), inputs, allow_unused=True)
    return given + [None if g is None else g.numpy() for g in plain]


@pytest.mark.parametrize("name", OURS)
def test_every_op_is_as_on_the_cpu(name, gpu):
    record = OURS[name]
    for sample in samples_of(record):
        if name == "to_device":
            continue
        for fused in forms(record):
            for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
                with mg.fused(fused):
                    expected = results(record, sample, "cpu", dtype)
                    found = results(record, sample, "cuda:0", dtype)
                assert_close(found, expected, tolerance)


def assert_close(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        largest = np.abs(b[np.isfinite(b)]).max(initial=1) if isinstance(b, np.ndarray) else 1
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
