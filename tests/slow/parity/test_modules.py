"""Modules against torch.nn's: arguments and their defaults, state, what is printed, values and gradients."""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

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


def probabilities(*shape):
    return rng.uniform(0.1, 0.9, shape)


def sides(*shape):
    return rng.choice([-1.0, 1.0], shape)


X, P, C, W = reals(4, 3), probabilities(4, 3), rng.integers(0, 3, 4), probabilities(3)
IDS = np.array([[1, 4, 0], [2, 2, 4]])
LISTED = np.array([[2, 0, -1], [1, -1, 0], [-1, 0, 0], [0, 1, 2]])
LOSSES = [
    ("BCELoss", {"weight": W}, (P, probabilities(4, 3))),
    ("BCEWithLogitsLoss", {"weight": W, "pos_weight": probabilities(3)}, (X, P)),
    ("CosineEmbeddingLoss", {"margin": 0.2}, (X, reals(4, 3), sides(4))),
    ("CrossEntropyLoss", {}, (X, C)),
    ("CrossEntropyLoss", {"weight": W, "ignore_index": 1, "label_smoothing": 0.2}, (X, C)),
    ("CrossEntropyLoss", {"weight": W, "label_smoothing": 0.2, "reduction": "sum"}, (X, P)),
    ("CrossEntropyLoss", {"weight": W, "reduction": "none", "label_smoothing": 0.1},
     (reals(2, 3, 2), np.array([[0, -100], [2, 1]]))),
    ("GaussianNLLLoss", {"full": True}, (X, reals(4, 3), probabilities(4, 1))),
    ("HingeEmbeddingLoss", {"margin": 0.5}, (X, sides(4, 3))),
    ("HuberLoss", {"delta": 0.7}, (X, reals(4, 3))),
    ("KLDivLoss", {"reduction": "batchmean"}, (X, P)),
    ("KLDivLoss", {"log_target": True, "reduction": "sum"}, (X, reals(4, 3))),
    ("L1Loss", {}, (X, reals(4, 3))),
    ("MSELoss", {"reduction": "sum"}, (X, reals(4, 3))),
    ("MarginRankingLoss", {"margin": 0.3}, (X, reals(4, 3), sides(4, 3))),
    ("MultiLabelMarginLoss", {}, (X, LISTED)),
    ("MultiLabelSoftMarginLoss", {"weight": W}, (X, P)),
    ("MultiMarginLoss", {"p": 2, "margin": 0.7, "weight": W}, (X, C)),
    ("NLLLoss", {"weight": W, "ignore_index": 2}, (X, C)),
    ("PoissonNLLLoss", {"full": True}, (X, P * 4)),
    ("PoissonNLLLoss", {"log_input": False, "eps": 0.1}, (P, P)),
    ("SmoothL1Loss", {"beta": 0.5}, (X, reals(4, 3))),
    ("SmoothL1Loss", {"beta": 0.0, "reduction": "none"}, (X, reals(4, 3))),
    ("SoftMarginLoss", {}, (X, sides(4, 3))),
    ("TripletMarginLoss", {"margin": 2.0, "swap": True}, (X, reals(4, 3), reals(4, 3))),
    ("TripletMarginLoss", {"p": 1}, (X, reals(4, 3), reals(4, 3))),
    ("TripletMarginWithDistanceLoss", {"margin": 2.0}, (X, reals(4, 3), reals(4, 3))),
]  # fmt: skip
LAYERS = [
    ("AlphaDropout", {"p": 0.0}, (X,)),
    ("Bilinear", {"in1_features": 3, "in2_features": 2, "out_features": 4}, (X, reals(4, 2))),
    ("CosineSimilarity", {"dim": 0, "eps": 0.1}, (X, reals(4, 3))),
    ("Dropout", {"p": 0.0}, (X,)),
    ("Dropout1d", {"p": 1.0}, (reals(2, 3, 4),)),
    ("Dropout2d", {"p": 0.0}, (reals(2, 3, 4, 2),)),
    ("Dropout3d", {"p": 0.0}, (reals(2, 3, 1, 2, 2),)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "padding_idx": -1}, (IDS,)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "max_norm": 1.0}, (IDS,)),
    ("Embedding", {"num_embeddings": 5, "embedding_dim": 3, "max_norm": 0.7, "norm_type": 1.0}, (IDS,)),
    ("Identity", {}, (X,)),
    ("PairwiseDistance", {"p": 3.0, "keepdim": True}, (X, reals(4, 3))),
]
FOUR = reals(2, 3, 2, 2) * 3
ACTIVATIONS = [
    ("CELU", {"alpha": 0.5}, (FOUR,)),
    ("ELU", {"alpha": 0.7}, (FOUR,)),
    ("GELU", {}, (FOUR,)),
    ("GELU", {"approximate": "tanh"}, (FOUR,)),
    ("GLU", {"dim": 2}, (FOUR,)),
    ("Hardshrink", {"lambd": 0.3}, (FOUR,)),
    ("Hardsigmoid", {}, (FOUR,)),
    ("Hardswish", {}, (FOUR,)),
    ("Hardtanh", {"min_val": -0.5, "max_val": 2.0}, (FOUR,)),
    ("LeakyReLU", {"negative_slope": 0.3}, (FOUR,)),
    ("LogSigmoid", {}, (FOUR,)),
    ("LogSoftmax", {"dim": 1}, (FOUR,)),
    ("Mish", {}, (FOUR,)),
    ("PReLU", {}, (FOUR,)),
    ("PReLU", {"num_parameters": 3, "init": 0.1}, (FOUR,)),
    ("ReLU", {}, (FOUR,)),
    ("ReLU6", {}, (FOUR * 3,)),
    ("SELU", {}, (FOUR,)),
    ("SiLU", {}, (FOUR,)),
    ("Sigmoid", {}, (FOUR,)),
    ("Softmax", {"dim": 1}, (FOUR,)),
    ("Softmax2d", {}, (FOUR,)),
    ("Softmin", {"dim": 0}, (FOUR,)),
    ("Softplus", {"beta": 2.0, "threshold": 3.0}, (FOUR,)),
    ("Softshrink", {"lambd": 0.3}, (FOUR,)),
    ("Softsign", {}, (FOUR,)),
    ("Tanh", {}, (FOUR,)),
    ("Tanhshrink", {}, (FOUR,)),
    ("Threshold", {"threshold": 0.2, "value": -1.0}, (FOUR,)),
]
LINE, PLANE, SPACE = reals(2, 4, 7), reals(2, 4, 5, 6), reals(1, 4, 3, 4, 3)
CONVOLUTIONS = [
    ("Conv1d", {"in_channels": 4, "out_channels": 3, "kernel_size": 3}, (LINE,)),
    (
        "Conv1d",
        {"in_channels": 4, "out_channels": 2, "kernel_size": 4, "padding": "same", "dilation": 2},
        (LINE,),
    ),
    (
        "Conv2d",
        {
            "in_channels": 4,
            "out_channels": 6,
            "kernel_size": (2, 3),
            "stride": 2,
            "padding": (1, 0),
            "groups": 2,
        },
        (PLANE,),
    ),
    (
        "Conv2d",
        {"in_channels": 4, "out_channels": 4, "kernel_size": 3, "groups": 4, "bias": False},
        (PLANE[0],),
    ),
    ("Conv3d", {"in_channels": 4, "out_channels": 2, "kernel_size": 2, "dilation": (1, 2, 1)}, (SPACE,)),
    ("ConvTranspose1d", {"in_channels": 4, "out_channels": 3, "kernel_size": 3, "stride": 2}, (LINE,)),
    (
        "ConvTranspose2d",
        {
            "in_channels": 4,
            "out_channels": 6,
            "kernel_size": 3,
            "stride": (2, 3),
            "padding": 1,
            "output_padding": 1,
            "groups": 2,
            "bias": False,
            "dilation": (2, 1),
        },
        (PLANE,),
    ),
    ("ConvTranspose3d", {"in_channels": 4, "out_channels": 2, "kernel_size": (1, 2, 2)}, (SPACE,)),
    ("Fold", {"output_size": (4, 5), "kernel_size": 2, "padding": 1, "stride": (2, 1)}, (reals(2, 8, 18),)),
    ("Unfold", {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": 2}, (PLANE,)),
]
PADDING = [
    ("ConstantPad1d", {"padding": 2, "value": 0.5}, (LINE,)),
    ("ConstantPad2d", {"padding": (1, 0, 2, -1), "value": 3.0}, (PLANE,)),
    ("ConstantPad3d", {"padding": 1, "value": -1.0}, (SPACE,)),
    ("ZeroPad1d", {"padding": (1, 2)}, (LINE,)),
    ("ZeroPad2d", {"padding": 1}, (PLANE[0],)),
    ("ZeroPad3d", {"padding": 1}, (SPACE,)),
    ("ReflectionPad1d", {"padding": 2}, (LINE,)),
    ("ReflectionPad2d", {"padding": (1, 0, 2, 1)}, (PLANE,)),
    ("ReflectionPad3d", {"padding": 1}, (SPACE,)),
    ("ReplicationPad1d", {"padding": (3, 1)}, (LINE,)),
    ("ReplicationPad2d", {"padding": 2}, (PLANE,)),
    ("ReplicationPad3d", {"padding": 1}, (SPACE,)),
    ("CircularPad1d", {"padding": (3, 1)}, (LINE,)),
    ("CircularPad2d", {"padding": 2}, (PLANE,)),
    ("CircularPad3d", {"padding": 1}, (SPACE,)),
]
POOLING = [
    ("MaxPool1d", {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True}, (LINE,)),
    ("MaxPool2d", {"kernel_size": 2}, (PLANE[0],)),
    ("MaxPool2d", {"kernel_size": 3, "stride": 1, "padding": 1}, (np.round(PLANE),)),  # ties
    ("MaxPool3d", {"kernel_size": (1, 2, 2), "stride": (1, 2, 1)}, (SPACE,)),
    ("MaxUnpool1d", {"kernel_size": 2}, (reals(1, 2, 2), np.array([[[0, 3], [1, 2]]]))),
    (
        "MaxUnpool2d",
        {"kernel_size": (2, 1), "stride": 1, "padding": (0, 0)},
        (reals(1, 3, 2), np.array([[[0, 3], [1, 2], [4, 5]]])),
    ),
    ("MaxUnpool3d", {"kernel_size": 1}, (reals(1, 1, 1, 1, 2), np.array([[[[[1, 0]]]]]))),
    ("AvgPool1d", {"kernel_size": 3, "stride": 2, "padding": 1}, (LINE,)),
    ("AvgPool2d", {"kernel_size": 2, "ceil_mode": True, "count_include_pad": False, "padding": 1}, (PLANE,)),
    ("AvgPool2d", {"kernel_size": (2, 3), "stride": 1, "divisor_override": 5}, (PLANE,)),
    ("AvgPool3d", {"kernel_size": 2, "stride": 1}, (SPACE,)),
    ("AdaptiveAvgPool1d", {"output_size": 3}, (LINE,)),
    ("AdaptiveAvgPool2d", {"output_size": (2, 4)}, (PLANE,)),
    ("AdaptiveAvgPool2d", {"output_size": (None, 1)}, (PLANE[0],)),
    ("AdaptiveAvgPool3d", {"output_size": 2}, (SPACE,)),
    ("AdaptiveMaxPool1d", {"output_size": 3}, (LINE,)),
    ("AdaptiveMaxPool2d", {"output_size": (2, 4)}, (PLANE,)),
    ("AdaptiveMaxPool3d", {"output_size": 2}, (SPACE,)),
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
]
NORMALIZATION = [
    ("BatchNorm1d", {"num_features": 3}, (X,)),
    ("BatchNorm1d", {"num_features": 4, "affine": False, "momentum": None}, (LINE,)),
    ("BatchNorm2d", {"num_features": 4, "eps": 0.1, "momentum": 0.3}, (PLANE,)),
    ("BatchNorm2d", {"num_features": 4, "track_running_stats": False, "bias": False}, (PLANE,)),
    ("BatchNorm3d", {"num_features": 4}, (SPACE,)),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}, (PLANE,)),
    ("GroupNorm", {"num_groups": 1, "num_channels": 4, "affine": False, "eps": 0.1}, (LINE,)),
    ("InstanceNorm1d", {"num_features": 4}, (LINE,)),
    ("InstanceNorm1d", {"num_features": 4, "affine": True}, (LINE[0],)),
    ("InstanceNorm2d", {"num_features": 4, "affine": True, "track_running_stats": True}, (PLANE,)),
    ("InstanceNorm3d", {"num_features": 4, "bias": False}, (SPACE,)),
    ("LayerNorm", {"normalized_shape": 6}, (PLANE,)),
    ("LayerNorm", {"normalized_shape": (5, 6), "eps": 0.1, "bias": False}, (PLANE,)),
    ("LayerNorm", {"normalized_shape": 7, "elementwise_affine": False}, (LINE,)),
    ("LocalResponseNorm", {"size": 3, "alpha": 0.5}, (PLANE,)),
    ("RMSNorm", {"normalized_shape": (5, 6), "eps": 0.1}, (PLANE,)),
    ("RMSNorm", {"normalized_shape": 7, "elementwise_affine": False}, (LINE,)),
]
CASES = [*LOSSES, *LAYERS, *ACTIVATIONS, *CONVOLUTIONS, *PADDING, *POOLING, *NORMALIZATION]
IDENTIFIED = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)]


def made(name, settings):
    """The module of each library; what ours has to learn is theirs."""
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    ours = {k: mg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    module = getattr(nn, name)(**ours).double()
    reference = getattr(torch.nn, name)(**theirs).double()
    module.load_state_dict({k: v.numpy() for k, v in reference.state_dict().items()})
    return module, reference


def given(arrays, make):
    """Tensors of the arrays, with gradients where they are floats; but 1 and -1 are sides."""
    tensors = [make(a) for a in arrays]
    for tensor, array in zip(tensors, arrays, strict=True):
        if array.dtype.kind == "f" and (np.abs(array) != 1).any():
            tensor.requires_grad_()
    return tensors


def assert_close(ours, theirs, rtol=1e-9):
    np.testing.assert_allclose(ours.array, theirs.detach().numpy(), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize(("name", "settings", "arrays"), IDENTIFIED)
def test_values_and_gradients(name, settings, arrays):
    module, reference = made(name, settings)
    ours, theirs = given(arrays, mg.tensor), given(arrays, torch.tensor)
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


@pytest.mark.parametrize(("name", "settings", "arrays"), IDENTIFIED)
def test_state_and_what_is_printed(name, settings, arrays):
    module, reference = made(name, settings)
    state = {k: (v.shape, str(v.dtype)) for k, v in module.state_dict().items()}
    assert state == {
        k: (tuple(v.shape), str(v.dtype).removeprefix("torch.")) for k, v in reference.state_dict().items()
    }
    assert repr(module) == without_what_is_not_ours(repr(reference))


def without_what_is_not_ours(printed):
    distance = "(\n  (distance_function): PairwiseDistance()\n)"  # the default, a module in torch
    return printed.replace(distance, "()")


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
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
    [c for c in CASES if "momentum" in inspect.signature(getattr(nn, c[0])).parameters],
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
def test_indices_of_the_largest_count_within_the_channel(name):
    x = np.round((LINE if "1d" in name else PLANE) * 2)
    x[..., 2] = np.nan
    y, places = getattr(nn, name)(2, return_indices=True)(mg.tensor(x))
    expected = getattr(torch.nn, name)(2, return_indices=True)(torch.tensor(x))
    np.testing.assert_array_equal(places.numpy(), expected[1].numpy())
    np.testing.assert_array_equal(y.numpy(), expected[0].numpy())


IN_PLACE = [case for case in CASES if "inplace" in inspect.signature(getattr(torch.nn, case[0])).parameters]


@pytest.mark.parametrize(("name", "settings", "arrays"), IN_PLACE)
def test_modules_in_place_change_their_input(name, settings, arrays):
    """In a graph, in evaluation and outside; a leaf is refused; what saved the input keeps it."""
    ours, theirs = (getattr(library, name)(**settings, inplace=True) for library in (nn, torch.nn))
    assert repr(ours) == repr(theirs)
    found = []
    for module, library in ((ours, mg), (theirs, torch)):
        x = library.tensor(arrays[0], requires_grad=True)
        y = x * 2
        square = y * y  # needs the old y, which PyTorch refuses in backward
        out = module(y)
        assert out is y
        (y * 3 + (square if library is mg else (x * 2) ** 2)).sum().backward()
        plain = library.tensor(arrays[0])
        module(plain)
        found.append([v.detach().numpy() for v in (y, x.grad, plain)])
        if settings.get("p") != 0.0:
            with pytest.raises(RuntimeError):
                module(x)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_convolutions_pad_with_what_is_there(mode):
    settings = {"in_channels": 4, "out_channels": 2, "kernel_size": (4, 3), "padding_mode": mode}
    for padding in ("same", (2, 1)):
        module, reference = made("Conv2d", {**settings, "padding": padding})
        assert_close(module(mg.tensor(PLANE)), reference(torch.tensor(PLANE)))
        assert repr(module) == repr(reference)


def test_a_transposed_convolution_reaches_the_size_that_is_asked():
    module, reference = made(
        "ConvTranspose2d", {"in_channels": 4, "out_channels": 2, "kernel_size": 2, "stride": 3}
    )
    for size in ((14, 17), (16, 19), (2, 2, 15, 18)):
        assert_close(module(mg.tensor(PLANE), size), reference(torch.tensor(PLANE), size))
    with pytest.raises(mg.errors.ShapeError, match=r"from \[14, 17\] to \[16, 19\]"):
        module(mg.tensor(PLANE), (17, 18))


WITH_PARAMETERS = {
    name: settings
    for name, settings, _ in CASES
    if "dtype" in inspect.signature(getattr(torch.nn, name)).parameters
}


@pytest.mark.parametrize(("name", "settings"), WITH_PARAMETERS.items())
def test_parameters_are_made_of_a_dtype_and_set_anew(name, settings):
    """What starts alike in PyTorch does here: ones and zeros, and draws in the same bounds."""
    module, reference = (
        getattr(library, name)(**settings, device="cpu", dtype=dtype)
        for library, dtype in ((nn, mg.float64), (torch.nn, torch.float64))
    )
    for module_of in (module, reference):
        if hasattr(module_of, "reset_parameters"):
            module_of.reset_parameters()
    ours, theirs = ({k: v.numpy() for k, v in m.state_dict().items()} for m in (module, reference))
    assert {k: (v.shape, v.dtype) for k, v in ours.items()} == {
        k: (v.shape, v.dtype) for k, v in theirs.items()
    }
    for key, value in theirs.items():
        if value.size and value.min() == value.max():
            np.testing.assert_array_equal(ours[key], value)
        elif name != "Embedding":
            bound = np.abs(value).max()
            assert 0 < np.abs(ours[key]).max() < 4 * bound
    assert hasattr(module, "reset_parameters") or not list(module.parameters())


def test_an_embedding_of_a_given_table():
    table = np.arange(6.0).reshape(3, 2)
    for freeze in (True, False):
        ours = nn.Embedding.from_pretrained(mg.tensor(table), freeze=freeze, padding_idx=1)
        theirs = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=freeze, padding_idx=1)
        assert repr(ours) == repr(theirs)
        assert ours.weight.requires_grad == theirs.weight.requires_grad == (not freeze)
        np.testing.assert_array_equal(ours(mg.tensor([2, 1])).numpy(), theirs(torch.tensor([2, 1])).detach())
    with pytest.raises(mg.errors.ShapeError):
        nn.Embedding.from_pretrained(mg.ones(3))


def test_every_module_of_both_is_compared():
    """Containers are in test_module_api.py, recurrent layers in test_recurrent.py; a base class and an
    identity need no case."""
    modules = lambda library: {
        name
        for name, kind in vars(library).items()
        if inspect.isclass(kind) and issubclass(kind, library.Module)
    }
    elsewhere = {
        "Linear",
        "Module",
        "ModuleDict",
        "ModuleList",
        "ParameterDict",
        "ParameterList",
        "Sequential",
        *("RNNBase", "RNN", "LSTM", "GRU"),
        *("RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"),
    }
    assert modules(nn) & modules(torch.nn) - elsewhere == {name for name, _, _ in CASES}
