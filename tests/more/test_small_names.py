"""Small names that PyTorch's users write, random numbers under PyTorch's names, and how tensors print."""

import pickle

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bool", "bool"), ("short", "int16"), ("int", "int32"), ("long", "int64"), ("half", "float16"),
     ("float", "float32"), ("double", "float64")],
)  # fmt: skip
def test_dtypes_have_their_short_names(name, dtype):
    assert getattr(mg, name) == np.dtype(dtype)
    assert mg.ones(2, dtype=getattr(mg, name)).dtype == getattr(mg.ones(2), name)().dtype == dtype


def test_star_import_does_not_shadow_built_in_types():
    namespace = {}
    exec("from minigrad import *", namespace)
    assert not {"bool", "int", "float"} & namespace.keys()
    assert {"long", "tensor", "nn", "zeros"} <= namespace.keys()


def test_shapes_are_tuples_with_numel():
    x = mg.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4) == mg.Size([2, 3, 4])
    assert x.shape.numel() == x.size().numel() == 24
    assert mg.zeros(()).shape.numel() == 1
    assert isinstance(x.shape, tuple)
    assert repr(x.shape) == "(2, 3, 4)"
    assert pickle.loads(pickle.dumps(x.shape)) == x.shape
    assert (x.exp().shape, x.array.shape) == ((2, 3, 4), (2, 3, 4))


def test_a_device_is_a_string_with_type_and_index():
    device = mg.device("cpu")
    assert (device, device.type, device.index) == ("cpu", "cpu", None)
    assert mg.ones(1).device.type == "cpu"
    assert (type(device)("cuda:1").type, type(device)("cuda:1").index) == ("cuda", 1)


def test_tensor_predicates():
    x = mg.ones(2, 3)
    assert mg.is_tensor(x)
    assert not mg.is_tensor(x.array)
    assert mg.is_floating_point(x)
    assert not mg.is_floating_point(x.long())
    assert not mg.is_complex(x)
    assert (mg.numel(x), x.nelement(), x.get_device(), x.is_cuda) == (6, 6, -1, False)
    assert x[1:].data_ptr() == x.data_ptr() + 12
    assert x.type_as(mg.ones(1, dtype="int64")).dtype == "int64"
    assert x.type_as(mg.ones(1)) is x
    assert x.H.shape == (3, 2)
    rows, columns = mg.where(mg.tensor([[1, 0], [0, 2]]) > 0)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])


def test_finfo_and_iinfo():
    assert mg.finfo(mg.float32).eps == np.finfo(np.float32).eps
    assert float(mg.finfo("bfloat16").max) > 3e38
    assert mg.iinfo(mg.int).max == 2**31 - 1
    with pytest.raises(mg.MinigradError, match=r"floating dtype, got int64\.\nUse mg.iinfo"):
        mg.finfo("int64")
    with pytest.raises(mg.MinigradError, match=r"integer dtype, got float32\.\nUse mg.finfo"):
        mg.iinfo("float32")


def test_inference_mode_is_no_grad():
    x = mg.ones(2, requires_grad=True)
    with mg.inference_mode():
        assert not (x * 2).requires_grad
        with mg.inference_mode(False):
            assert mg.is_grad_enabled()
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
        assert mg.inference_mode(False)(lambda: x * 2)().requires_grad
    assert not mg.inference_mode(lambda: x * 2)().requires_grad
    assert (x * 2).requires_grad


def test_get_and_set_defaults():
    assert mg.get_default_dtype() == mg.float32
    assert mg.get_default_device() == "cpu"
    mg.set_default_dtype(mg.float32)
    mg.set_default_device("cpu")
    mg.use_deterministic_algorithms(True)
    with pytest.raises(mg.OptionError, match=r"default dtype must be float32, got float64\.\n.*dtype="):
        mg.set_default_dtype(mg.float64)


# ---------------------------------------------------------------- random numbers


def test_generators_are_independent():
    def draws(g):
        normal = mg.normal(0.0, 1.0, (3,), generator=g)
        return [mg.rand(2, generator=g), mg.randn(2, generator=g), mg.randint(9, (4,), generator=g),
                mg.randperm(5, generator=g), normal, mg.bernoulli(mg.full((9,), 0.5), generator=g),
                mg.multinomial(mg.ones(7), 3, generator=g), mg.poisson(mg.ones(4), generator=g)]  # fmt: skip

    mg.manual_seed(0)
    expected = mg.rand(3)
    mg.manual_seed(0)
    first = draws(mg.Generator().manual_seed(7))
    assert mg.equal(mg.rand(3), expected)
    again = draws(mg.Generator().manual_seed(7))
    assert all(mg.equal(a, b) for a, b in zip(first, again, strict=True))
    other = draws(mg.Generator().manual_seed(8))
    assert not any(mg.equal(a, b) for a, b in zip(first[:2], other[:2], strict=True))


def test_functions_have_the_import_paths_of_pytorch():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    mg.utils.checkpoint.checkpoint(lambda t: t.exp() * 2, x, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(x.grad.array, 2 * np.exp([1, 2]), rtol=1e-6)
    with mg.amp.autocast("cpu", dtype=mg.bfloat16):
        assert (mg.ones(2, 2) @ mg.ones(2, 2)).dtype == mg.bfloat16
    assert mg.amp.GradScaler("cuda", enabled=False).get_scale() == 1
    for jacobian in (mg.func.jacrev, mg.func.jacfwd):
        assert jacobian(lambda t: t * t)(x.detach()).tolist() == [[2, 0], [0, 4]]
    assert mg.linalg.pinv(mg.tensor([[2.0, 0.0], [0.0, 1e-4]]), 1e-2).tolist() == [[0.5, 0], [0, 0]]
    assert mg.ones(3).expand(size=(2, 3)).shape == (2, 3)
    with pytest.raises(mg.MinigradError, match=r"requires_grad must be a flag, got 3\.\n.*mg.empty"):
        mg.Tensor(2, 3)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'out'\.\n.*copy_"):
        mg.add(mg.ones(2), 1, out=mg.ones(2))


def test_restoring_the_rng_state_repeats_draws():
    assert mg.manual_seed(5).initial_seed() == mg.initial_seed() == 5
    assert mg.seed() != mg.seed()
    state = mg.get_rng_state()
    assert state.dtype == "uint8"
    first = mg.rand(4)
    with mg.random.fork_rng():
        mg.rand(2)
    second = mg.rand(4)
    mg.set_rng_state(state)
    assert mg.equal(mg.rand(4), first)
    assert mg.equal(mg.rand(4), second)
    g = mg.Generator().manual_seed(3)
    state = g.get_state()
    first = mg.rand(2, generator=g)
    assert mg.equal(mg.rand(2, generator=mg.Generator().set_state(state)), first)
    with pytest.raises(mg.StateError, match="not the state of a random number generator"):
        mg.set_rng_state(mg.ones(3))


def test_bernoulli_and_poisson_follow_their_probabilities():
    mg.manual_seed(0)
    p = mg.tensor([0.0, 0.25, 1.0]).expand(4000, 3)
    drawn = mg.bernoulli(p)
    assert drawn.dtype == "float32"
    assert np.allclose(drawn.mean(0).array, [0, 0.25, 1], atol=0.03)
    assert abs(mg.bernoulli(mg.zeros(4000), 0.25).mean().item() - 0.25) < 0.03
    rates = mg.tensor([0.0, 0.5, 4.0]).expand(4000, 3)
    assert np.allclose(mg.poisson(rates).mean(0).array, [0, 0.5, 4], atol=0.15)
    for bad in ([1.5], [-0.1], [float("nan")]):
        with pytest.raises(mg.OptionError, match="probabilities between 0 and 1"):
            mg.bernoulli(mg.tensor(bad))


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_draws_classes_by_their_weights(replacement):
    mg.manual_seed(0)
    weights = mg.tensor([1.0, 0.0, 3.0, 0.0])
    drawn = mg.multinomial(weights.expand(4000, 4), 1, replacement)
    assert (drawn.shape, drawn.dtype) == ((4000, 1), "int64")
    assert set(drawn.flatten().tolist()) == {0, 2}
    assert abs((drawn == 2).float().mean().item() - 0.75) < 0.03
    both = mg.multinomial(mg.tensor([1.0, 2.0, 3.0]).expand(6000, 3), 2, replacement).array
    assert (both[:, 0] != both[:, 1]).all() != replacement
    second = both[both[:, 0] == 2][:, 1]  # without replacement one of weights 1 and 2
    assert abs((second == 1).mean() - (1 / 3 if replacement else 2 / 3)) < 0.04


@pytest.mark.parametrize(
    ("weights", "settings", "message"),
    [
        ([1.0, -1.0], {}, "finite weights >= 0"),
        ([0.0, 0.0], {}, "positive sum"),
        ([float("nan"), 1.0], {}, "finite weights"),
        ([1.0, 1.0], {"num_samples": 3}, "3 of 2 classes without replacement"),
        ([1.0, 1.0], {"num_samples": 0}, "draw 0 of 2"),
        ([1, 1], {}, "floating tensor, got int64"),
        ([[[1.0]]], {}, r"shape \(1, 1, 1\)"),
    ],
)
def test_multinomial_rejects_invalid_arguments(weights, settings, message):
    with pytest.raises(mg.MinigradError, match=message):
        mg.multinomial(mg.tensor(weights), **{"num_samples": 1, **settings})


def test_normal_takes_tensors_or_a_size():
    mg.manual_seed(0)
    mean, std = mg.tensor([0.0, 10.0]), mg.tensor([[1.0], [0.0]])
    assert mg.normal(mean, std).shape == (2, 2)
    assert mg.normal(mean, 0.0).tolist() == [0, 10]
    many = mg.normal(5.0, 2.0, (4000,))
    assert abs(many.mean().item() - 5) < 0.15
    assert abs(many.std().item() - 2) < 0.15
    assert mg.normal(0.0, 1.0, (2,), requires_grad=True).requires_grad
    for bad in ({"mean": 0.0}, {"mean": mean, "size": (2,)}, {"mean": mean, "std": -1.0}):
        with pytest.raises(mg.OptionError):
            mg.normal(**bad)


# ---------------------------------------------------------------- printing


@pytest.fixture
def _default_printing():
    yield
    mg.set_printoptions(profile="default")


@pytest.mark.usefixtures("_default_printing")
def test_print_options():
    x = mg.tensor([1.23456, 100.0])
    mg.set_printoptions(precision=2)
    assert repr(x) == "tensor([  1.23, 100.00])"
    mg.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e+00, 1.00e+02])"
    mg.set_printoptions(profile="short", threshold=5)
    assert repr(mg.arange(8)) == "tensor([0, 1, ..., 6, 7])"
    mg.set_printoptions(profile="full", sci_mode=False)
    assert "..." not in repr(mg.arange(2000))
    assert repr(mg.tensor([1e-6, 1.5])) == "tensor([0.0000, 1.5000])"
    with pytest.raises(mg.OptionError, match="default, short, full, got 'long'"):
        mg.set_printoptions(profile="long")
    with pytest.raises(mg.OptionError, match="precision must be a number >= 0, got -1"):
        mg.set_printoptions(precision=-1)


# ---------------------------------------------------------------- settings that mean nothing here


def test_memory_formats_are_accepted():
    x = mg.ones(1, 2, 3, 3, layout=None, pin_memory=False)
    nhwc = mg.channels_last
    assert mg.equal(x, x.to(memory_format=nhwc, non_blocking=True))
    assert mg.equal(x, x.contiguous(memory_format=nhwc))
    assert mg.equal(x, x.clone(memory_format=nhwc))
    assert mg.equal(x, mg.ones_like(x, memory_format=mg.preserve_format))
    assert x.to("float64", non_blocking=True).dtype == "float64"


@pytest.mark.parametrize(("name", "dtype"), [("FloatTensor", "float32"), ("LongTensor", "int64")])
def test_legacy_tensor_constructors(name, dtype):
    make = getattr(mg, name)
    assert make([1, 2]).tolist() == [1, 2]
    assert make([1, 2]).dtype == make(np.ones(2)).dtype == make(2, 3).dtype == dtype
    assert make(2, 3).shape == make(mg.ones(2, 3).shape).shape == (2, 3)
    assert make().shape == (0,)
    assert mg.ones(1, dtype="float64").type(make).dtype == dtype


def test_variable_returns_a_leaf_sharing_memory():
    x = mg.ones(2)
    v = mg.autograd.Variable(x, requires_grad=True)
    (v * v).sum().backward()
    assert v.grad.tolist() == [2, 2]
    assert v.array is x.array
    assert not x.requires_grad
    assert mg.autograd.Variable(v * 2).is_leaf


# ---------------------------------------------------------------- devices, precision, checkpoints


def test_common_device_selection_code_runs():
    device = mg.accelerator.current_accelerator().type if mg.accelerator.is_available() else "cpu"
    assert mg.ones(1).to(device).device.type in ("cpu", "cuda")
    assert mg.backends.mps.is_available() is False
    mg.cuda.manual_seed_all(0)
