"""Arguments of PyTorch's as minigrad's, and results of both compared: for sweeps over PyTorch's databases."""

import numpy as np
import pytest

import minigrad as mg
from tests.golden.entries import cotangents

torch = pytest.importorskip("torch")

# settings that have no meaning here: memory layouts, other devices
OF_TORCH_ALONE = {"layout", "memory_format", "non_blocking", "pin_memory"}


class Converter:
    """A sample's arguments as minigrad's; the same tensor stays the same tensor."""

    def __init__(self):
        self.pairs = []  # (theirs, ours) of every tensor

    def __call__(self, thing):
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if isinstance(thing, torch.dtype):
            return str(thing).removeprefix("torch.")
        if isinstance(thing, torch.device):
            return str(thing)
        if isinstance(thing, dict):
            return {key: self(value) for key, value in thing.items() if key not in OF_TORCH_ALONE}
        if isinstance(thing, list | tuple):
            return type(thing)(map(self, thing)) if type(thing) in (list, tuple) else tuple(map(self, thing))
        if isinstance(thing, slice):
            return slice(self(thing.start), self(thing.stop), self(thing.step))
        return thing

    def tensor(self, theirs):
        for known, ours in self.pairs:
            if known is theirs:
                return ours
        ours = mg.Tensor(theirs.detach().resolve_neg().numpy())
        if theirs.requires_grad:
            ours.requires_grad_()
        self.pairs.append((theirs, ours))
        return ours


def assert_equal(ours, theirs, what):
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs or (ours != ours and theirs != theirs), what
        return
    assert isinstance(ours, mg.Tensor), f"{what}: {type(ours)}"
    theirs = theirs.detach().resolve_neg()
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch."), what
    within = TOLERANCE.get(theirs.dtype, 0)
    np.testing.assert_allclose(ours.array, theirs.numpy(force=True), rtol=within, atol=within, err_msg=what)


TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-5}  # whole numbers have none


def gradients(outs, ins, cots, grad):
    """d sum(out * cotangent) / d in, differentiable again; zeros where there is none."""
    found = grad(outs, ins, cots, create_graph=True, allow_unused=True)
    return [g if g is not None else x * 0 for g, x in zip(found, ins, strict=True)]


def compare_gradients(leaves, ours, theirs, again, twice, may_be_nan=False):
    """First gradients of results by leaves, pairs (theirs, ours); with and without a graph; second ones."""
    outs = [(b, a) for a, b in zip(ours, theirs, strict=True) if getattr(b, "requires_grad", False)]
    leaves = [(b, a) for b, a in leaves if b.requires_grad]
    if not outs or not leaves:
        return
    assert all(a.requires_grad for _, a in outs), "a result has no gradient"
    t_outs, m_outs = zip(*outs, strict=True)
    t_ins, m_ins = zip(*leaves, strict=True)
    weights = cotangents(t_outs, 0)
    t_cots = [torch.tensor(w, requires_grad=True) for w in weights]
    m_cots = [mg.tensor(w, requires_grad=True) for w in weights]
    t_first = gradients(t_outs, t_ins, t_cots, torch.autograd.grad)
    m_first = gradients(m_outs, m_ins, m_cots, mg.autograd.grad)
    for i, (a, b) in enumerate(zip(m_first, t_first, strict=True)):
        assert_equal(a, b, f"gradient of {i}")
    wanted = [any(a is out for _, a in outs) for out in ours]
    anew = [out for out, want in zip(again(), wanted, strict=True) if want]
    raw = mg.autograd.grad(anew, m_ins, [mg.Tensor(w) for w in weights], allow_unused=True)
    for i, (a, b) in enumerate(zip(raw, t_first, strict=True)):
        if a is not None:
            assert_equal(a, b, f"gradient of {i}, not to be differentiated again")
    kept = [i for i, g in enumerate(t_first) if g.requires_grad]
    if not twice or not kept:
        return
    weights = cotangents([t_first[i] for i in kept], 1)
    try:
        t_second = gradients([t_first[i] for i in kept], [*t_ins, *t_cots],
                             [torch.tensor(w) for w in weights], torch.autograd.grad)  # fmt: skip
    except RuntimeError as error:
        if "is not implemented" in str(error):  # by PyTorch
            return
        raise
    m_second = gradients([m_first[i] for i in kept], [*m_ins, *m_cots],
                         [mg.tensor(w) for w in weights], mg.autograd.grad)  # fmt: skip
    for i, (a, b) in enumerate(zip(m_second, t_second, strict=True)):
        if may_be_nan:
            b = torch.where(b.isnan(), torch.tensor(a.array), b)
        assert_equal(a, b, f"second gradient {i}")
