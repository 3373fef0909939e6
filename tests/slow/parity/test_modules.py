"""Modules against torch.nn's: arguments, states and what is printed of all of them; values of those that
PyTorch's database of modules lacks; running statistics, changes in place, indices and other options.
"""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

from .comparing import Converter
from .test_module_db import COVERED, converted_function, samples_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

rng = np.random.default_rng(0)
NOT_OURS = {
    "size_average", "reduce", "scale_grad_by_freq", "sparse", "_weight", "_freeze", "min_value", "max_value",
    "args", "kwargs",
}  # fmt: skip


# PyTorch guesses an axis from the number of axes, and warns that it does
OTHER_DEFAULTS = {(name, "dim", None): ("dim", -1) for name in ("LogSoftmax", "Softmax", "Softmin")}


def reals(*shape):
    return rng.normal(size=shape)


X = reals(4, 3)
IDS = np.array([[1, 4, 0], [2, 2, 4]])
LINE, PLANE, SPACE = reals(2, 4, 7), reals(2, 4, 5, 6), reals(1, 4, 3, 4, 3)
CASES = [
    ("AlphaDropout", {"p": 0.0}, (X,)),
    ("CosineSimilarity", {"dim": 0, "eps": 0.1}, (X, reals(4, 3))),
    ("Dropout", {"p": 0.0}, (X,)),
    ("Dropout1d", {"p": 1.0}, (reals(2, 3, 4),)),
    ("Dropout2d", {"p": 0.0}, (PLANE,)),
    ("Dropout3d", {"p": 0.0}, (SPACE,)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": -1}, (IDS,)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "max_norm": 0.7, "norm_type": 1.0}, (IDS,)),
    ("Hardsigmoid", {}, (PLANE * 3,)),
    ("Identity", {}, (X,)),
    ("PairwiseDistance", {"p": 3.0, "keepdim": True}, (X, reals(4, 3))),
    ("TripletMarginLoss", {"margin": 2.0, "swap": True}, (X, reals(4, 3), reals(4, 3))),
    ("TripletMarginLoss", {"p": 1}, (X, reals(4, 3), reals(4, 3))),
    ("TripletMarginWithDistanceLoss", {"margin": 2.0}, (X, reals(4, 3), reals(4, 3))),
    ("Fold", {"output_size": (4, 5), "kernel_size": 2, "padding": 1, "stride": (2, 1)}, (reals(2, 8, 18),)),
    ("Unfold", {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": 2}, (PLANE,)),
    ("MaxPool2d", {"kernel_size": 3, "stride": 1, "padding": 1}, (np.round(PLANE),)),  # ties
    ("MaxUnpool1d", {"kernel_size": 2}, (reals(1, 2, 2), np.array([[[0, 3], [1, 2]]]))),
    ("MaxUnpool2d", {"kernel_size": (2, 1), "stride": 1, "padding": (0, 0)},
     (reals(1, 3, 2), np.array([[[0, 3], [1, 2], [4, 5]]]))),
    ("MaxUnpool3d", {"kernel_size": 1}, (reals(1, 1, 1, 1, 2), np.array([[[[[1, 0]]]]]))),
    ("Upsample", {"scale_factor": 2}, (PLANE,)),
    ("Upsample", {"size": (3, 8), "mode": "bicubic"}, (PLANE,)),
    ("UpsamplingBilinear2d", {"scale_factor": 2}, (PLANE,)),
    ("UpsamplingNearest2d", {"size": 7}, (PLANE,)),
    ("PixelShuffle", {"upscale_factor": 2}, (PLANE,)),
    ("PixelUnshuffle", {"downscale_factor": 2}, (reals(3, 4, 6),)),
    ("ChannelShuffle", {"groups": 2}, (PLANE,)),
    ("Flatten", {}, (PLANE,)),
    ("Flatten", {"start_dim": 0, "end_dim": 1}, (PLANE,)),
    ("Unflatten", {"dim": 1, "unflattened_size": (2, 2)}, (PLANE,)),
]  # fmt: skip
IDENTIFIED = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)]
RECURRENT = {"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"}  # in test_recurrent.py
COMPARED = sorted({name for name, _, _ in CASES} | set(COVERED) - RECURRENT)


def made(name, settings):
    """The module of each library; what ours has to learn is theirs."""
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    ours = {k: mg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    module = getattr(nn, name)(**ours).double()
    reference = getattr(torch.nn, name)(**theirs).double()
    module.load_state_dict({k: v.numpy() for k, v in reference.state_dict().items()})
    return module, reference


def assert_close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(ours.array, theirs.detach().numpy(), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize(("name", "settings", "arrays"), IDENTIFIED)
def test_values_and_gradients(name, settings, arrays):
    module, reference = made(name, settings)
    ours, theirs = (
        [tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays] for tensor in (mg.tensor, torch.tensor)
    )
    y = module(*ours)
    expected = reference(*theirs)
    assert_close(y, expected)
    weights = rng.uniform(0.5, 1.5, tuple(y.shape))
    y.backward(weights)
    expected.backward(torch.tensor(weights))
    pairs = [*zip(ours, theirs, strict=True), *zip(module.parameters(), reference.parameters(), strict=True)]
    for a, b in pairs:
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert_close(a.grad, b.grad, rtol=1e-7 if name == "Hardsigmoid" else 1e-9)  # its 1/6 is float32's


def constructors():
    """(name, arguments by position, by name): of CASES, and of each module of the database as it is made."""
    yield from ((name, (), settings) for name, settings, _ in CASES)
    for name in set(COVERED) - RECURRENT:
        for sample, _ in samples_of(name, torch.float64):
            yield name, sample.constructor_input.args, sample.constructor_input.kwargs


def test_state_dict_and_repr_match_pytorch():
    """Of a dtype. What starts alike in PyTorch does here: ones and zeros, and draws in the same bounds."""
    for name, args, settings in constructors():
        convert = Converter()
        known = inspect.signature(getattr(torch.nn, name)).parameters
        dtype = {"dtype": torch.float64, "device": "cpu"} if "dtype" in known else {}
        theirs = getattr(torch.nn, name)(*args, **settings, **dtype)
        settings = {key: converted_function(x) or convert(x) for key, x in settings.items()}
        ours = getattr(nn, name)(*convert(args), **settings, **convert(dtype))
        if "distance_function" not in settings:
            assert without_what_is_not_ours(repr(theirs)) == repr(ours)
        for module in (ours, theirs):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        assert hasattr(ours, "reset_parameters") or not list(ours.parameters())
        state = ours.state_dict()
        assert state.keys() == theirs.state_dict().keys()
        for key, value in theirs.state_dict().items():
            assert (state[key].shape, f"torch.{state[key].dtype}") == (value.shape, str(value.dtype))
            if value.numel() and value.min() == value.max():
                np.testing.assert_array_equal(state[key].numpy(), value.numpy())
            elif value.numel() and name != "Embedding":
                assert 0 < np.abs(state[key].numpy()).max() < 4 * value.abs().max()


def without_what_is_not_ours(printed):
    distance = "(\n  (distance_function): PairwiseDistance()\n)"  # the default, a module in torch
    return printed.replace(distance, "()")


@pytest.mark.parametrize("name", COMPARED)
def test_arguments_have_pytorchs_names_order_and_defaults(name):
    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(getattr(library, name)).parameters.values()]
        for library in (nn, torch.nn)
    )
    theirs = [OTHER_DEFAULTS.get((name, *argument), argument) for argument in theirs]
    ours, theirs = ([a for a in arguments if a[0] not in NOT_OURS] for arguments in (ours, theirs))
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "settings", "arrays"),
    [
        ("BatchNorm1d", {"num_features": 3}, (X,)),
        ("BatchNorm1d", {"num_features": 4, "affine": False, "momentum": None}, (LINE,)),
        ("BatchNorm2d", {"num_features": 4, "eps": 0.1, "momentum": 0.3}, (PLANE,)),
        ("BatchNorm3d", {"num_features": 4}, (SPACE,)),
        ("InstanceNorm2d", {"num_features": 4, "affine": True, "track_running_stats": True}, (PLANE,)),
    ],
)
def test_running_statistics_are_used_in_evaluation(name, settings, arrays):
    module, reference = made(name, settings)
    for scale in (1.0, 3.0, -2.0):
        x = arrays[0] * scale + scale
        assert_close(module(mg.tensor(x)), reference(torch.tensor(x)))
    module.eval()
    reference.eval()
    for name, buffer in reference.named_buffers():
        assert_close(dict(module.named_buffers())[name], buffer)
    ours = mg.tensor(arrays[0], requires_grad=True)
    theirs = torch.tensor(arrays[0], requires_grad=True)
    y = module(ours)
    expected = reference(theirs)
    assert_close(y, expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", ["MaxPool1d", "MaxPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d"])
def test_max_pool_indices_match_pytorch(name):
    x = np.round((LINE if "1d" in name else PLANE) * 2)
    x[..., 2] = np.nan
    y, places = getattr(nn, name)(2, return_indices=True)(mg.tensor(x))
    expected = getattr(torch.nn, name)(2, return_indices=True)(torch.tensor(x))
    np.testing.assert_array_equal(places.numpy(), expected[1].numpy())
    np.testing.assert_array_equal(y.numpy(), expected[0].numpy())


IN_PLACE = [name for name in COMPARED if "inplace" in inspect.signature(getattr(torch.nn, name)).parameters]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_modules_change_their_input(name):
    """In a graph, in evaluation and outside; a leaf is refused; what saved the input keeps it."""
    settings = {"p": 0.0} if "Dropout" in name else {"threshold": 0.2, "value": -1.0} if "Thr" in name else {}
    array = reals(*(2, 3, 4) if name == "Dropout1d" else (2, 3, 2, 2)) * 3
    ours, theirs = (getattr(library, name)(**settings, inplace=True) for library in (nn, torch.nn))
    assert repr(ours) == repr(theirs)
    found = []
    for module, library in ((ours, mg), (theirs, torch)):
        x = library.tensor(array, requires_grad=True)
        y = x * 2
        square = y * y  # needs the old y, which PyTorch refuses in backward
        out = module(y)
        assert out is y
        (y * 3 + (square if library is mg else (x * 2) ** 2)).sum().backward()
        plain = library.tensor(array)
        module(plain)
        found.append([v.detach().numpy() for v in (y, x.grad, plain)])
        if settings.get("p") != 0.0:
            with pytest.raises(RuntimeError):
                module(x)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_convolution_padding_modes_match_pytorch(mode):
    settings = {"in_channels": 4, "out_channels": 2, "kernel_size": (4, 3), "padding_mode": mode}
    for padding in ("same", (2, 1)):
        module, reference = made("Conv2d", {**settings, "padding": padding})
        assert_close(module(mg.tensor(PLANE)), reference(torch.tensor(PLANE)))
        assert repr(module) == repr(reference)


def test_transposed_convolution_with_output_size():
    module, reference = made(
        "ConvTranspose2d", {"in_channels": 4, "out_channels": 2, "kernel_size": 2, "stride": 3}
    )
    for size in ((14, 17), (16, 19), (2, 2, 15, 18)):
        assert_close(module(mg.tensor(PLANE), size), reference(torch.tensor(PLANE), size))
    with pytest.raises(mg.errors.ShapeError, match=r"from \[14, 17\] to \[16, 19\]"):
        module(mg.tensor(PLANE), (17, 18))


def test_embedding_from_pretrained():
    table = np.arange(6.0).reshape(3, 2)
    for freeze in (True, False):
        ours = nn.Embedding.from_pretrained(mg.tensor(table), freeze=freeze, padding_idx=1)
        theirs = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=freeze, padding_idx=1)
        assert repr(ours) == repr(theirs)
        assert ours.weight.requires_grad == theirs.weight.requires_grad == (not freeze)
        np.testing.assert_array_equal(ours(mg.tensor([2, 1])).numpy(), theirs(torch.tensor([2, 1])).detach())
    with pytest.raises(mg.errors.ShapeError):
        nn.Embedding.from_pretrained(mg.ones(3))


def test_every_module_shared_with_pytorch_is_compared():
    """Containers are in test_module_api.py, recurrent layers in test_recurrent.py; a base class and an
    identity need no case."""
    modules = lambda library: {
        name
        for name, kind in vars(library).items()
        if inspect.isclass(kind) and issubclass(kind, library.Module)
    }
    elsewhere = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"}
    elsewhere |= {"RNNBase", "RNNCellBase"} | RECURRENT
    assert modules(nn) & modules(torch.nn) - elsewhere == set(COMPARED)
