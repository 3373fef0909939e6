"""Modules against torch.nn's: arguments and their defaults, state, what is printed, values and gradients."""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

rng = np.random.default_rng(0)
NOT_OURS = {"size_average", "reduce", "device", "dtype", "inplace", "max_norm", "norm_type",
            "scale_grad_by_freq", "sparse", "_weight", "_freeze",
            "min_value", "max_value", "args", "kwargs"}  # fmt: skip


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
CASES = [*LOSSES, *LAYERS, *ACTIVATIONS]
IDENTIFIED = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(CASES)]


def made(name, settings):
    """The module of each library; what ours has to learn is theirs."""
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    ours = {k: mg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
    module, reference = getattr(nn, name)(**ours).double(), getattr(torch.nn, name)(**theirs).double()
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
    np.testing.assert_allclose(ours.data, theirs.detach().numpy(), rtol=rtol, atol=1e-11)


@pytest.mark.parametrize(("name", "settings", "arrays"), IDENTIFIED)
def test_values_and_gradients(name, settings, arrays):
    module, reference = made(name, settings)
    ours, theirs = given(arrays, mg.tensor), given(arrays, torch.tensor)
    y, expected = module(*ours), reference(*theirs)
    assert_close(y, expected)
    y.backward(np.ones(y.shape))
    expected.backward(torch.ones_like(expected))
    pairs = [*zip(ours, theirs, strict=True), *zip(module.parameters(), reference.parameters(), strict=True)]
    for a, b in pairs:
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert_close(a.grad, b.grad, rtol=1e-7 if name == "Hardsigmoid" else 1e-9)  # its 1/6 is float32's


@pytest.mark.parametrize(("name", "settings", "arrays"), IDENTIFIED)
def test_state_and_what_is_printed(name, settings, arrays):
    module, reference = made(name, settings)
    state = {k: (v.shape, str(v.dtype)) for k, v in module.state_dict().items()}
    assert state == {k: (tuple(v.shape), "float64") for k, v in reference.state_dict().items()}
    assert repr(module) == without_what_is_not_ours(repr(reference))


def without_what_is_not_ours(printed):
    distance = "(\n  (distance_function): PairwiseDistance()\n)"  # the default, a module in torch
    return printed.replace(", inplace=False", "").replace(distance, "()")


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_arguments_have_pytorchs_names_order_and_defaults(name):
    ours, theirs = (
        [(p.name, p.default) for p in inspect.signature(getattr(library, name)).parameters.values()]
        for library in (nn, torch.nn)
    )
    theirs = [OTHER_DEFAULTS.get((name, *argument), argument) for argument in theirs]
    ours, theirs = ([a for a in arguments if a[0] not in NOT_OURS] for arguments in (ours, theirs))
    assert ours == theirs
