"""L-BFGS against PyTorch's: the same losses, the same number of calls, the same parameters."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import OptionError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity


def rosenbrock(x, w):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (w**2).sum() + (w[0] * x[:2]).sum()


def bowl(x, w):
    return ((x - 1) ** 2).sum() + 0.1 * (x**4).sum() + 0.3 * (w**2).sum() + 0.01 * (w[0] * x[:2]).sum()


def train(library, function, options, steps=8, reload_at=None):
    x = library.tensor(np.linspace(-1, 1.5, 6), requires_grad=True)
    w = library.tensor(np.ones((2, 2)), requires_grad=True)
    optimizer = library.optim.LBFGS([x, w], **options)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = function(x, w)
        loss.backward()
        losses.append(loss.item())
        return loss

    for step in range(steps):
        if step == reload_at:
            state = optimizer.state_dict()
            optimizer = library.optim.LBFGS([x, w], **options)
            optimizer.load_state_dict(state)
        optimizer.step(closure)
    return losses, x.tolist() + w.tolist()[0]


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (bowl, {"lr": 0.1}),
        (bowl, {"lr": 0.5, "max_iter": 3, "history_size": 2}),
        (bowl, {"lr": 0.5, "max_iter": 6, "max_eval": 3}),
        (bowl, {"lr": 0.9, "tolerance_grad": 1e-2}),
        (bowl, {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-3}),
        (rosenbrock, {"lr": 1e-3}),
        (rosenbrock, {"line_search_fn": "strong_wolfe"}),
        (rosenbrock, {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 3}),
    ],
)
def test_lbfgs_losses_and_closure_calls_match_pytorch(function, options):
    ours = train(mg, function, options)
    theirs = train(torch, function, options)
    assert len(ours[0]) == len(theirs[0])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-7)


def test_a_loaded_state_continues():
    options = {"lr": 0.3, "max_iter": 2, "history_size": 4}
    assert train(mg, bowl, options) == train(mg, bowl, options, reload_at=3)


def test_lbfgs_rejects_unsupported_settings():
    x = mg.ones(2, requires_grad=True)
    y = mg.ones(2, requires_grad=True)
    with pytest.raises(OptionError, match="needs a closure"):
        mg.optim.LBFGS([x]).step()
    with pytest.raises(OptionError, match="one parameter group"):
        mg.optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(OptionError, match="line_search_fn must be None or 'strong_wolfe', got 'armijo'"):
        mg.optim.LBFGS([x], line_search_fn="armijo")
