"""nn.utils and nn.init against PyTorch's."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

rng = np.random.default_rng(0)
LIBRARIES = ((mg, nn), (torch, torch.nn))
# ---------------------------------------------------------------- utils


def network(library):
    model = library.Sequential(library.Linear(2, 3), library.Tanh(), library.Linear(3, 1)).double()
    draw = np.random.default_rng(0)
    for p in model.parameters():
        value = draw.normal(size=tuple(p.shape))
        p.data = mg.tensor(value) if library is nn else torch.tensor(value)
        p.grad = mg.tensor(value * 3) if library is nn else torch.tensor(value * 3)
    return model


CLIPPING = {
    "norm 1": lambda u, ps: u.clip_grad_norm_(ps, 0.5, norm_type=1.0, foreach=True),
    "norm 3": lambda u, ps: u.clip_grad_norm_(ps, 0.5, 3),
    "norm inf": lambda u, ps: u.clip_grad_norm_(ps, 0.5, math.inf),
    "far above": lambda u, ps: u.clip_grad_norm_(ps, 500.0),
    "value": lambda u, ps: u.clip_grad_value_(ps, 0.7),
    "total": lambda u, ps: u.get_total_norm([p.grad for p in ps], 2.5),
    "by a norm": lambda u, ps: u.clip_grads_with_norm_(ps, 0.3, u.get_total_norm([p.grad for p in ps])),
}


@pytest.mark.parametrize("clip", CLIPPING.values(), ids=list(CLIPPING))
def test_clipping(clip):
    found = []
    for _, library in LIBRARIES:
        parameters = list(network(library).parameters())
        result = clip(library.utils, parameters)
        found.append([p.grad.numpy() for p in parameters] + ([] if result is None else [result.numpy()]))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_parameters_as_a_vector_and_back():
    found = []
    for library, modules in LIBRARIES:
        model = network(modules)
        vector = modules.utils.parameters_to_vector(model.parameters())
        vector.square().sum().backward()
        modules.utils.vector_to_parameters(vector.detach() * 2, model.parameters())
        x = library.ones(1, 2, dtype=library.float64)
        found.append([vector.detach().numpy(), model[0].weight.grad.numpy(), model(x).detach().numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    with pytest.raises(mg.errors.ShapeError):
        nn.utils.vector_to_parameters(mg.ones(3), network(nn).parameters())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_and_unpad_sequence(batch_first, side):
    arrays = [np.arange(2.0 * n).reshape(n, 2) for n in (3, 1, 4)]
    found = []
    for library, modules in LIBRARIES:
        rnn = modules.utils.rnn
        sequences = [library.tensor(a) for a in arrays]
        padded = rnn.pad_sequence(sequences, batch_first, -1.0, padding_side=side)
        found.append([padded.numpy()])
        if side == "right":
            found[-1] += [
                x.numpy() for x in rnn.unpad_sequence(padded, library.tensor([3, 1, 4]), batch_first)
            ]
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_functional_call_matches_pytorch():
    found = []
    for library, modules in LIBRARIES:
        model = network(modules)
        call = nn.utils.stateless.functional_call if library is mg else torch.func.functional_call
        before = model[0].weight
        w = library.ones(3, 2, dtype=library.float64).requires_grad_()
        x = library.ones(1, 2, dtype=library.float64)
        y = call(model, {"0.weight": w}, x)
        y.sum().backward()
        assert model[0].weight is before
        found.append([y.detach().numpy(), w.grad.numpy()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


# ---------------------------------------------------------------- initialization

SPREAD = {
    "uniform_": [{}, {"a": -2.0, "b": 1.0}],
    "normal_": [{}, {"mean": 3.0, "std": 0.1}],
    "trunc_normal_": [{}, {"std": 0.02}, {"mean": 1.0, "a": 0.5, "b": 1.2}],
    "kaiming_uniform_": [
        {},
        {"a": 2.0},
        {"mode": "fan_out", "nonlinearity": "relu"},
        {"nonlinearity": "tanh"},
    ],
    "kaiming_normal_": [
        {},
        {"a": 2.0},
        {"mode": "fan_out", "nonlinearity": "relu"},
        {"nonlinearity": "selu"},
    ],
    "xavier_uniform_": [{}, {"gain": 3.0}],
    "xavier_normal_": [{}, {"gain": 3.0}],
    "orthogonal_": [{}, {"gain": 2.0}],
}


@pytest.mark.parametrize(("name", "settings"), [(name, s) for name, some in SPREAD.items() for s in some])
def test_draws_have_pytorchs_mean_and_spread(name, settings):
    torch.manual_seed(0)
    for shape in ((150, 200), (40, 30, 5, 5)):
        ours = getattr(nn.init, name)(mg.empty(*shape), **settings).numpy()
        theirs = getattr(torch.nn.init, name)(torch.empty(*shape), **settings).numpy()
        np.testing.assert_allclose(ours.std(), theirs.std(), rtol=0.03)
        np.testing.assert_allclose(ours.mean(), theirs.mean(), atol=0.05 * theirs.std())
        if "normal" not in name and name != "orthogonal_":
            np.testing.assert_allclose(
                [ours.min(), ours.max()], [theirs.min(), theirs.max()], rtol=0.02, atol=1e-3
            )


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (4, 4)])
def test_orthogonal_matrices_are_orthogonal(shape):
    w = nn.init.orthogonal_(mg.empty(*shape, dtype="float64"), gain=2.0).numpy().reshape(shape[0], -1)
    small = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shape", "settings"),
    [("eye_", (3, 4), {}), ("dirac_", (4, 2, 3), {}), ("dirac_", (6, 2, 3, 4), {"groups": 3}),
     ("ones_", (2,), {}), ("dirac_", (2, 5, 1, 2, 3), {}), ("zeros_", (2,), {}),
     ("constant_", (2, 2), {"val": 0.3})],
)  # fmt: skip
def test_deterministic_initializers_match_pytorch(name, shape, settings):
    ours = getattr(nn.init, name)(mg.empty(*shape), **settings)
    np.testing.assert_array_equal(ours.numpy(), getattr(torch.nn.init, name)(torch.empty(*shape), **settings))


def test_sparse_init_zeros_the_same_fraction_of_each_column():
    w = nn.init.sparse_(mg.empty(10, 7), 0.25, std=2.0).numpy()
    assert ((w == 0).sum(0) == 3).all()


GAINS = ["linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]


@pytest.mark.parametrize("name", GAINS)
def test_gains(name):
    assert nn.init.calculate_gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 4, 5)])
def test_fans(shape):
    fans = lambda init, w: init._calculate_fan_in_and_fan_out(w)
    assert fans(nn.init, mg.empty(*shape)) == fans(torch.nn.init, torch.empty(*shape))


REFUSED = [
    lambda init, t: init.kaiming_uniform_(t, mode="both"),
    lambda init, t: init.kaiming_normal_(t, nonlinearity="gelu"),
    lambda init, t: init.xavier_uniform_(t[0]),
    lambda init, t: init.orthogonal_(t[0]),
    lambda init, t: init.eye_(t[0]),
    lambda init, t: init.dirac_(t),
    lambda init, t: init.sparse_(t[0], 0.1),
    lambda init, t: init.calculate_gain("leaky_relu", "a"),
]


@pytest.mark.parametrize("fill", REFUSED)
def test_calls_rejected_by_pytorch_are_rejected(fill):
    with pytest.raises(mg.errors.MinigradError):
        fill(nn.init, mg.empty(3, 4))
    with pytest.raises((ValueError, RuntimeError)):
        fill(torch.nn.init, torch.empty(3, 4))
