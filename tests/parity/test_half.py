"""bfloat16 on the CPU against PyTorch's: values to the bit where one operation rounds once.

(A number that is added, as in x + 1.7, PyTorch's CPU rounds to bfloat16 first; its GPU and we do not.)
"""

import ml_dtypes
import numpy as np
import pytest
import torch

import minigrad as mg
from minigrad.nn import functional as F

BF16 = ml_dtypes.bfloat16
X = np.random.default_rng(0).normal(size=(6, 8)).astype(BF16)
Y = np.random.default_rng(1).uniform(0.5, 2, size=(6, 8)).astype(BF16)
OPS = {
    "add": lambda lib, x, y: x + y, "multiply": lambda lib, x, y: x * y, "divide": lambda lib, x, y: x / y,
    "number": lambda lib, x, y: x * 0.3 + 1.75 - y, "power": lambda lib, x, y: y**1.5,
    "exp": lambda lib, x, y: x.exp(), "log": lambda lib, x, y: y.log(), "tanh": lambda lib, x, y: x.tanh(),
    "sqrt": lambda lib, x, y: y.sqrt(), "sigmoid": lambda lib, x, y: x.sigmoid(),
    "maximum": lambda lib, x, y: lib.maximum(x, y), "where": lambda lib, x, y: lib.where(x > 0, x, y),
    "clamp": lambda lib, x, y: x.clamp(-0.5, 0.5), "relu": lambda lib, x, y: x.relu(),
    "sort": lambda lib, x, y: x.sort(-1)[0], "index": lambda lib, x, y: x[[0, 2, 0]],
    "cat": lambda lib, x, y: lib.cat([x, y]), "transpose": lambda lib, x, y: x.T + y.T,
}  # fmt: skip
SUMS = {  # which add up in float32, in another order
    "sum": lambda lib, x, y: x.sum(0), "mean": lambda lib, x, y: x.mean(-1),
    "matmul": lambda lib, x, y: x @ y.T,
    "softmax": lambda lib, x, y: x.softmax(-1), "cumsum": lambda lib, x, y: x.cumsum(0),
    "layer_norm": lambda lib, x, y: functions(lib).layer_norm(x, (8,), y[0], y[1]),
    "gelu": lambda lib, x, y: functions(lib).gelu(x), "linear": lambda lib, x, y: functions(lib).linear(x, y),
    "cross_entropy": lambda lib, x, y: functions(lib).cross_entropy(x, lib.arange(6)),
    "attention": lambda lib, x, y: functions(lib).scaled_dot_product_attention(x, y, y),
}  # fmt: skip


def functions(lib):
    return F if lib is mg else torch.nn.functional


def both(call):
    """Value and gradients of x and y, as float32, ours and torch's."""
    found = []
    x, y = mg.tensor(X, requires_grad=True), mg.tensor(Y, requires_grad=True)
    out = call(mg, x, y)
    assert out.dtype == mg.bfloat16
    (out * 0.5).sum().backward()
    found.append([a.numpy().astype(np.float32) for a in (out, x.grad, y.grad) if a is not None])
    x, y = (torch.tensor(a.astype(np.float32)).to(torch.bfloat16).requires_grad_() for a in (X, Y))
    out = call(torch, x, y)
    (out * 0.5).sum().backward()
    found.append([a.detach().float().numpy() for a in (out, x.grad, y.grad) if a is not None])
    return found


@pytest.mark.parametrize("name", OPS)
def test_values_are_rounded_as_pytorchs(name):
    ours, theirs = both(OPS[name])
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert len(ours) == len(theirs)
    for a, b in zip(ours[1:], theirs[1:], strict=True):  # torch's are from rounded values of tanh and sigmoid
        np.testing.assert_allclose(a, b, rtol=2**-7, atol=2**-8 if name in ("tanh", "sigmoid") else 1e-6)


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_pytorchs_to_a_rounding(name):
    ours, theirs = both(SUMS[name])
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2**-6, atol=2**-7)


def test_torch_and_we_cast_the_same_functions():
    """Of what PyTorch casts on a CPU, ours goes the same way."""
    x, w = mg.randn(3, 4), mg.randn(5, 4)
    a, b = torch.tensor(x.numpy()), torch.tensor(w.numpy())
    with mg.autocast(dtype="bfloat16"):
        ours = F.linear(x, w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theirs = torch.nn.functional.linear(a, b)
    assert theirs.dtype == torch.bfloat16
    np.testing.assert_allclose(
        ours.numpy().astype(np.float32), theirs.float().numpy(), rtol=2**-7, atol=2**-8
    )


def test_a_scaler_goes_as_pytorchs():
    """Steps, skipped steps and factors, and a state that either loads from the other."""
    settings = {"init_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 2}
    ours, theirs = mg.GradScaler(**settings), torch.amp.GradScaler("cpu", **settings)
    p, q = mg.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for factor in (1.0, 2.0, np.inf, 1.0, np.nan, 3.0, 1.0):
        found = []
        for lib, x, scaler in ((mg, p, ours), (torch, q, theirs)):
            optimizer = lib.optim.SGD([x], lr=0.25)
            optimizer.zero_grad()
            scaler.scale((x * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append((x.tolist(), scaler.state_dict()))
        assert found[0] == found[1]
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
