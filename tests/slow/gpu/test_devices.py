"""Every op, and everything that moves between devices, on a GPU or on the stand-in for one."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core import devices
from minigrad.core.devices import array_module, on_cpu
from minigrad.core.op import Op
from minigrad.core.random import Key
from minigrad.core.registry import registry
from minigrad.kernels.cuda import backend, draws
from minigrad.ops.draws import keep_mask
from minigrad.ops.sample_calls import as_function, floating, forms, samples_of
from minigrad.ops.samplers import Sample
from tests.slow import standin
from tests.slow.gpu.test_training import MODELS, twin

OURS = {
    name: r
    for name, r in sorted(registry.items())
    if r.source.__module__.startswith(("minigrad.", "minitransformer."))
}


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
        return there if operand or not isinstance(record, Op) else there.array

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
def test_every_op_matches_the_cpu(name, gpu):
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


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_lists_of_tensors_keep_their_gradients(device, gpu):
    """Beside a tensor on either device, once there is a GPU in use."""
    mg.zeros(1, device="cuda")
    a, b = (mg.tensor(value, requires_grad=True) for value in (2.0, 3.0))
    y = mg.ones(2, device=device).mul_([a, b])
    y.sum().backward()
    assert (y.device == "cpu") == (device == "cpu")
    assert (a.grad.item(), b.grad.item()) == (1, 1)
    if device == "cpu":
        with pytest.raises(mg.DeviceError, match="tensors on different devices"):
            mg.ones(2).mul_([a.to("cuda"), b.to("cuda")])


def values_and_gradients(record, sample, device, dtype):
    function, inputs = as_function(record, moved(record, sample, device, dtype), dtype)
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    found = function(*inputs)
    outs = [out for out in floating(found) if out.requires_grad]
    given = [out.numpy() for out in floating(found)]
    if outs:
        sum(out.sum() for out in outs).backward()
    return given + [None if x.grad is None else x.grad.numpy() for x in inputs]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_half_precision_ops_match_the_cpu(name, dtype, tolerance, gpu):
    record = OURS[name]
    refused = (mg.MinigradError, TypeError, ValueError, FloatingPointError)
    for sample in samples_of(record):
        if name == "to_device":
            continue
        try:
            with np.errstate(all="ignore"):
                expected = values_and_gradients(record, sample, "cpu", dtype)
        except refused:  # LAPACK knows neither
            with pytest.raises(refused):
                values_and_gradients(record, sample, "cuda:0", dtype)
            continue
        assert_close(values_and_gradients(record, sample, "cuda:0", dtype), expected, tolerance)


def assert_close(found, expected, tolerance):
    for a, b in zip(found, expected, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        if str(getattr(a, "dtype", "")) == "bfloat16":
            a = a.astype(np.float32)
            b = b.astype(np.float32)
        largest = np.abs(b[np.isfinite(b)]).max(initial=1) if isinstance(b, np.ndarray) else 1
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest)


# ---------------------------------------------------------------- where tensors are


def test_tensors_move_between_devices(gpu):
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    there = x.to("cuda")
    assert (x.device, there.device, there.cuda().device) == ("cpu", "cuda:0", "cuda:0")
    assert there.to("cuda:0") is there
    assert there.cpu().device == "cpu"
    assert there.to("cpu", "float64").dtype == mg.float64
    assert x.to(there).device == "cuda:0"
    assert there.tolist() == x.tolist()
    assert there.sum().item() == 10
    np.testing.assert_array_equal(np.asarray(there), x.numpy())
    assert repr(there).endswith("device='cuda:0')")
    assert mg.tensor(there).device == mg.as_tensor(there.array).device == "cuda:0"
    assert mg.tensor(1.0, device="auto").device == mg.device("cuda") == "cuda:0"
    assert mg.cuda.is_available()
    assert mg.cuda.device_count() >= 1
    mg.cuda.synchronize()


def test_gradients_are_on_the_device_of_their_tensor(gpu):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    (x.cuda() ** 3).sum().backward()
    assert x.grad.device == "cpu"
    assert x.grad.tolist() == [3.0, 12.0]
    (g,) = mg.autograd.grad((x.cuda() ** 3).sum(), x, create_graph=True)
    (second,) = mg.autograd.grad(g.cuda().sum(), x)
    assert second.tolist() == [6.0, 12.0]


def test_tensors_are_made_on_a_device(gpu):
    there = {"device": "cuda"}
    mg.manual_seed(0)
    made = [
        mg.zeros(2, **there), mg.ones(2, **there), mg.empty(2, **there), mg.full((2,), 3.0, **there),
        mg.eye(2, **there), mg.arange(2, **there), mg.linspace(0, 1, 2, **there),
        mg.logspace(0, 1, 2, **there), mg.rand(2, **there), mg.randn(2, **there),
        mg.randint(5, size=(2,), **there), mg.randperm(2, **there), mg.scalar_tensor(1.0, **there),
        mg.tensor([1, 2], **there), mg.as_tensor([1, 2], **there),
    ]  # fmt: skip
    x = made[0]
    made += [
        mg.zeros_like(x), mg.ones_like(x), mg.full_like(x, 2.0), mg.rand_like(x), mg.randint_like(x, 3),
        x.new_zeros(2), x.new_tensor([1.0]), x.new_full((2,), 1.0),
    ]  # fmt: skip
    assert {y.device for y in made} == {"cuda:0"}


def test_random_numbers_are_the_same_on_every_device(gpu):
    drawn = {}
    for device in ("cpu", "cuda"):
        mg.manual_seed(7)
        x = mg.ones(33, 5, device=device)
        drawn[device] = [
            mg.randn(4, device=device).numpy(), mg.nn.functional.dropout(x, 0.3).numpy(),
            mg.rand(2, 3, device=device).numpy(),
        ]  # fmt: skip
    for a, b in zip(drawn["cuda"], drawn["cpu"], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("row", [0, 3, 1000])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_masks_are_drawn_on_the_device_bit_for_bit(gpu, row, seed):
    xp = mg.zeros(1, device="cuda").array
    library = array_module(xp)
    for shape in ((), (1,), (7, 3), (2, 5, 13), (0, 4)):
        for p in (0.0, 0.1, 0.5, 1.0, 3.59e-4, 1 - 3.59e-4, 1 - 1e-11):
            key = Key(seed, 2**32 - 1, 12, 3, row if shape else 0)
            found = on_cpu(draws.keep_mask(library, key, shape, p))
            np.testing.assert_array_equal(found, keep_mask(key, shape, p))


# ---------------------------------------------------------------- changes, indices, copies


def test_in_place_ops_on_a_gpu(gpu):
    x = mg.arange(6, device="cuda").to("float32").reshape(2, 3)
    x += 1
    x.mul_(mg.full((3,), 2.0, device="cuda")).sub_(1).div_(2).add_(mg.ones(3), alpha=2)
    x[0, 1] = 7
    x[1] = [5.0, 6.0, 7.0]
    x[:, 2] = mg.tensor([1.0, 2.0])
    x[mg.tensor([0, 1], device="cuda"), np.array([0, 0])] = -1.0
    x.clamp_(max=6)
    assert x.device == "cuda:0"
    assert x.tolist() == [[-1.0, 6.0, 1.0], [-1.0, 6.0, 2.0]]
    x.copy_(mg.zeros(2, 3)).fill_(4).zero_()
    mg.zeros(2, 3).copy_(x)
    with pytest.raises(mg.ShapeError, match="share memory"):
        x[:1].expand(2, 3).add_(1)
    with pytest.raises(mg.MinigradError):
        x[0] = mg.ones(2)


def test_indices_may_be_on_either_device(gpu):
    x = mg.arange(12, device="cuda").reshape(3, 4)
    for index in (np.array([2, 0]), mg.tensor([2, 0]), mg.tensor([2, 0], device="cuda"), [2, 0]):
        assert x[index].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
        assert x.index_select(0, index).device == "cuda:0"
    assert x[x > 9].tolist() == [10, 11]
    assert [row.device for row in x] == ["cuda:0"] * 3
    assert int(x[1, 1]) == 5
    with pytest.raises(mg.RangeError):
        x[np.array([3])]
    with pytest.raises(mg.RangeError):
        x[mg.tensor([0, -4], device="cuda")]
    with pytest.raises(mg.RangeError), mg.kernels.use("cupy"):  # our own kernels do not wait to say so
        mg.nn.functional.embedding(mg.tensor([3], device="cuda"), x.to("float32"))


def test_copies_stay_on_their_device(gpu):
    x = mg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (x * x).sum().backward()
    for other in (copy.copy(x), copy.deepcopy(x), x.clone(), x.detach()):
        assert other.device == "cuda:0"
    assert copy.deepcopy(x).grad.tolist() == [2.0, 4.0]


def test_broadcast_gradients_accumulate_on_a_gpu(gpu):
    """A view by broadcasting shares memory, so that nobody may add into it; CuPy does not say so."""
    x = mg.ones(2, 3, device="cuda", requires_grad=True)
    (x.mean() + x.sum() + (x * x).sum(0).sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full((2, 3), 1 / 6 + 1 + 2), rtol=1e-6)


# ---------------------------------------------------------------- errors


def test_tensors_on_different_devices_are_refused(gpu):
    x, y = mg.ones(2, 3), mg.ones(2, 3, device="cuda")
    for call in (lambda: x + y, lambda: y @ x.T, lambda: mg.cat([x, y]), lambda: mg.where(x > 0, y, y)):
        with pytest.raises(mg.DeviceError, match=r"on cpu") as caught:
            call()
        assert "on cuda:0" in str(caught.value)
        assert ".to(" in str(caught.value)
    with pytest.raises(mg.DeviceError, match="different devices"):
        x[mg.tensor([0], device="cuda")]
    model = mg.nn.Linear(3, 2).to("cuda")
    with pytest.raises(mg.DeviceError, match=r"linear.*float32\[2, 3\] on cpu, float32\[2, 3\] on cuda:0"):
        model(x)


def test_numbers_and_arrays_move_to_the_device_of_the_tensor(gpu):
    x = mg.ones(2, 3, device="cuda")
    for y in (x * mg.tensor(2.0), x * 2, x * np.full((2, 3), 2, np.float32), [2.0, 2.0, 2.0] * x):
        assert y.device == "cuda:0"
        assert y.tolist() == [[2.0] * 3] * 2


def test_unknown_and_missing_devices_are_rejected(gpu):
    with pytest.raises(mg.OptionError, match="unknown device 'tpu'"):
        mg.ones(2, device="tpu")
    with pytest.raises(mg.DeviceError, match="there is no 'cuda:99'"):
        mg.ones(2, device="cuda:99")


def test_a_missing_cupy_is_named(monkeypatch):
    monkeypatch.setitem(devices.backends, "cuda", backend.CuPyBackend())
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(mg.DependencyError, match=r"pip install 'minitransformer\[cuda\]'"):
        mg.ones(2, device="cuda")
    assert mg.ones(2, device="auto").device == "cpu"
    assert not mg.cuda.is_available()


def test_a_missing_driver_is_named(monkeypatch):
    with standin.installed() as cupy:

        def none():
            raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", none)
        monkeypatch.setattr(cupy.cuda.runtime, "deviceSynchronize", none)
        with pytest.raises(mg.DeviceError, match=r"cudaErrorInsufficientDriver.*\n.*NVIDIA's driver"):
            mg.ones(2).to("cuda")
        assert mg.ones(2, device="auto").device == "cpu"
        mg.cuda.synchronize()  # does nothing


def test_a_gpu_without_a_backend_is_named(monkeypatch):
    monkeypatch.delitem(devices.backends, "cuda")
    with pytest.raises(mg.DependencyError, match="no array backend for device 'cuda'"):
        mg.ones(2, device="cuda")
    with pytest.raises(mg.DependencyError, match="no array backend for device 'cuda'"):
        mg.ones(2).to("cuda:0")
    assert mg.ones(2, device="auto").device == "cpu"
    assert not mg.cuda.is_available()
    assert mg.cuda.device_count() == 0


class Toy(np.ndarray):
    """The arrays of a library of one's own."""


class ToyBackend(devices.ArrayBackend):
    kind = "toy"
    package = "toys"

    def import_library(self):
        library = SimpleNamespace(**vars(np))
        library.ndarray = Toy
        library.asarray = np.asanyarray
        library.array = lambda *args: np.array(*args).view(Toy)
        library.zeros = lambda *args: np.zeros(*args).view(Toy)
        return library

    def own_functions(self):
        return {"exp": lambda x: np.exp(x) * 2}  # so that one sees whose it is

    def device_count(self):
        return len([self.load()])

    def device_in_use(self):
        return 0

    def use(self, device):
        self.load()

    def device_of(self, array):
        return devices.Device("toy:0")

    def upload(self, array, device):
        return self.load().array(array)

    def download(self, array, operation):
        return np.array(array)

    def is_writeable(self, array):
        return array.flags.writeable


def test_user_defined_backends_compute_on_their_device():
    devices.register(ToyBackend())
    try:
        x = mg.tensor([0.0, 2.0], device="toy", requires_grad=True)
        assert x.device == "toy:0"
        assert devices.on_cpu(x.exp().array).tolist() == [2.0, 2 * np.exp(np.float32(2))]
        (x * x * mg.tensor(3.0) + x.erf()[[0, 0]].sum()).sum().backward()
        assert x.grad.device == "toy:0"
        expected = [16 / np.sqrt(np.pi), 12.0]  # its exp is in the derivative of erf
        np.testing.assert_allclose(x.grad.to("cpu").numpy(), expected, rtol=1e-6)
        with pytest.raises(mg.DeviceError, match="different devices"):
            x + mg.ones(2)
        assert mg.zeros(2, device="toy:0").device == "toy:0"
        with pytest.raises(mg.DeviceError, match="there is no 'toy:1'"):
            x.to("toy:1")
    finally:
        del devices.backends["toy"]
        devices.register(devices.NUMPY)
    assert mg.ones(2).exp().device == "cpu"


def test_cupy_without_a_gpu_raises_device_error():
    """The real CuPy, on a machine that has no GPU."""
    pytest.importorskip("cupy")
    if mg.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(mg.DeviceError, match="driver"):
        mg.ones(2, device="cuda")


# ---------------------------------------------------------------- looking at it


def test_graphs_of_gpu_tensors_can_be_drawn(gpu, tmp_path):
    pages = []
    for model in twin(MODELS["Transformer"][0]):
        mg.manual_seed(2)
        loss = model(*MODELS["Transformer"][1]).square().mean()
        graph = mg.graph.trace(loss, model, check=True)
        pages.append(graph)
        graph.save(tmp_path / "graph.html")
        assert "<svg" in graph.fold(1).to_svg()
        loss.backward()
    here, there = pages
    assert [v.name for v in here.vertices] == [v.name for v in there.vertices]
    for a, b in zip(here.vertices, there.vertices, strict=True):
        for one, other in zip((*a.values, *a.gradients), (*b.values, *b.gradients), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one.numbers, other.numbers, rtol=1e-9, atol=1e-10)


def test_anomalies_are_found_on_a_gpu(gpu):
    x = mg.tensor([1.0, 0.0], device="cuda", requires_grad=True)
    with pytest.raises(mg.NonFiniteError, match="log"), mg.autograd.detect_anomaly():
        mg.log(x - 2).sum().backward()


def test_functional_transforms_on_a_gpu(gpu):
    f = lambda x: (x**3).sum()
    x = mg.tensor([1.0, 2.0], device="cuda")
    assert mg.func.grad(f)(x).tolist() == [3.0, 12.0]
    assert mg.func.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert mg.func.jacobian(lambda x: x * x)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert mg.func.jvp(f, (x,), (mg.ones(2, device="cuda"),))[1].item() == 15.0
    assert mg.func.hvp(f, x, mg.ones(2, device="cuda")).tolist() == [6.0, 12.0]


def test_checkpointed_functions_on_a_gpu(gpu):
    x = mg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    mg.autograd.checkpoint(lambda x: nn.functional.dropout(x * x, 0.5), x).sum().backward()
    assert x.grad.device == "cuda:0"


def test_gradcheck_on_a_gpu(gpu):
    x = mg.randn(2, 3, dtype="float64", device="cuda", requires_grad=True)
    assert mg.gradcheck(lambda x: (x.softmax(-1) * x).sum(), [x], order=2).passed
