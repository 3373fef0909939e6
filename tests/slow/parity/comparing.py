"""Arguments of PyTorch's as minigrad's, and results of both compared: for sweeps over PyTorch's databases."""

import numpy as np
import pytest

import minigrad as mg

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
