"""On a GPU everything is as on the CPU: every op, its gradient and the gradient's gradient.

Where there is no GPU a stand-in for CuPy takes its place (`tests/slow/standin`), as strict as CuPy is.
"""

import copy
import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core import devices
from minigrad.core.devices import array_module, check_device, kind_of, on_cpu
from minigrad.core.kernels import Routine, kernels_for
from minigrad.core.op import Op
from minigrad.core.random import Key
from minigrad.core.registry import registry
from minigrad.kernels.cuda import backend, draws
from minigrad.ops.draws import keep_mask
from minigrad.ops.sample_calls import as_function, floating, forms, samples_of
from minigrad.ops.samplers import Sample
from minigrad.optim.optimizer import adam_update
from minitransformer import (
    GPT,
    GPTConfig,
    Llama,
    LlamaConfig,
    TrainConfig,
    Transformer,
    TransformerConfig,
    generate,
)
from minitransformer.data.splits import Sources
from minitransformer.models.protocol import model_class
from minitransformer.recipes import load_recipe
from minitransformer.tasks import Translation, task_class
from minitransformer.tasks.base import first_rows
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.trainer import Trainer
from tests.slow import standin
from tests.tiny import PAIRS, TINY, TINY_GPT

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
def test_every_op_is_as_on_the_cpu(name, gpu):
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
def test_half_precision_is_as_on_the_cpu(name, dtype, tolerance, gpu):
    record, refused = OURS[name], (mg.MinigradError, TypeError, ValueError, FloatingPointError)
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
            a, b = a.astype(np.float32), b.astype(np.float32)
        largest = np.abs(b[np.isfinite(b)]).max(initial=1) if isinstance(b, np.ndarray) else 1
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * largest)


# ---------------------------------------------------------------- where tensors are


def test_a_tensor_says_where_it_is_and_moves(gpu):
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


def test_a_gradient_comes_back_to_where_its_tensor_is(gpu):
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
        for p in (0.0, 0.1, 0.5, 1.0):
            key = Key(seed, 2**32 - 1, 12, 3, row if shape else 0)
            found = on_cpu(draws.keep_mask(library, key, shape, p))
            np.testing.assert_array_equal(found, keep_mask(key, shape, p))


# ---------------------------------------------------------------- changes, indices, copies


def test_tensors_change_in_place(gpu):
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


def test_copies_stay_where_they_are(gpu):
    x = mg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    (x * x).sum().backward()
    for other in (copy.copy(x), copy.deepcopy(x), x.clone(), x.detach()):
        assert other.device == "cuda:0"
    assert copy.deepcopy(x).grad.tolist() == [2.0, 4.0]


def test_a_gradient_adds_up_where_it_was_broadcast(gpu):
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


def test_numbers_and_arrays_follow_the_tensors_that_they_meet(gpu):
    x = mg.ones(2, 3, device="cuda")
    for y in (x * mg.tensor(2.0), x * 2, x * np.full((2, 3), 2, np.float32), [2.0, 2.0, 2.0] * x):
        assert y.device == "cuda:0"
        assert y.tolist() == [[2.0] * 3] * 2


def test_what_is_not_there_is_named(gpu):
    with pytest.raises(mg.OptionError, match="unknown device 'tpu'"):
        mg.ones(2, device="tpu")
    with pytest.raises(mg.DeviceError, match="there is no 'cuda:99'"):
        mg.ones(2, device="cuda:99")


def test_a_missing_cupy_is_named(monkeypatch):
    monkeypatch.setitem(devices.backends, "cuda", backend.CuPyBackend())
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(mg.DependencyError, match=r"pip install -e '.\[cuda\]'"):
        mg.ones(2, device="cuda")
    assert mg.ones(2, device="auto").device == "cpu"
    assert not mg.cuda.is_available()


def test_a_missing_driver_is_named(monkeypatch):
    with standin.installed() as cupy:

        def none():
            raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

        monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", none)
        with pytest.raises(mg.DeviceError, match=r"cudaErrorInsufficientDriver.*\n.*NVIDIA's driver"):
            mg.ones(2).to("cuda")
        assert mg.ones(2, device="auto").device == "cpu"


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
    kind, package = "toy", "toys"

    def import_library(self):
        library = SimpleNamespace(**vars(np))
        library.ndarray, library.asarray = Toy, np.asanyarray
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


def test_a_backend_of_ones_own_computes_where_its_arrays_are():
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


def test_cupy_without_a_gpu_says_so():
    """The real CuPy, on a machine that has no GPU."""
    pytest.importorskip("cupy")
    if mg.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(mg.DeviceError, match="driver"):
        mg.ones(2, device="cuda")


# ---------------------------------------------------------------- learning


def twin(make):
    """The same module on the CPU and on the GPU."""
    modules = []
    for device in ("cpu", "cuda"):
        mg.manual_seed(3)
        modules.append(make().double().to(device))
    return modules


OPTIMIZERS = [
    lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda params: optim.Adam(params, lr=0.1, weight_decay=0.01),
    lambda params: optim.AdamW(params, lr=0.1),
    lambda params: optim.AdamW(params, lr=0.1, amsgrad=True, maximize=True),
    lambda params: optim.RMSprop(params, lr=0.01, momentum=0.9, centered=True, eps=0.1),
    lambda params: optim.Adagrad(params, lr=0.1, lr_decay=0.1),
    lambda params: optim.Adadelta(params),
    lambda params: optim.Adamax(params, weight_decay=0.1),
    lambda params: optim.NAdam(params, lr=0.1),
    lambda params: optim.RAdam(params, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
]


def test_muon_takes_the_same_steps_elsewhere(gpu):
    models = twin(lambda: nn.Linear(4, 3, bias=False))
    x = np.random.default_rng(0).normal(size=(5, 4))
    optimizers = [optim.Muon(model.parameters(), lr=0.1) for model in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            step(model, optimizer, mg.as_tensor(x, device=model.weight.device))
    np.testing.assert_allclose(models[0].weight.numpy(), models[1].weight.numpy(), rtol=1e-12)


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optim.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("norm_type", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clipping_of_what_is_not_finite_is_as_on_the_cpu(gpu, dtype, norm_type, bad):
    found = []
    for device in ("cpu", "cuda"):
        parameters = [mg.zeros(n, dtype=dtype, device=device, requires_grad=True) for n in (2, 1)]
        for p, g in zip(parameters, ([3.0, 4.0], [bad]), strict=True):
            p.grad = mg.tensor(g, dtype=dtype, device=device)
        total = nn.utils.get_total_norm([p.grad for p in parameters], norm_type)
        assert total.device == parameters[0].device
        nn.utils.clip_grads_with_norm_(parameters[:1], 1.0, total)
        norm = nn.utils.clip_grad_norm_(parameters, 1.0, norm_type)
        found.append([norm.item(), total.item(), *(x for p in parameters for x in p.grad.tolist())])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_optimizers_take_the_same_steps_and_go_on_elsewhere(gpu, make, dtype):
    layers = lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    models = [model.to(dtype) for model in twin(layers)]
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(dtype)
    optimizers = [make(model.parameters()) for model in models]
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for _ in range(3):
        here, there = (step(*pair, mg.as_tensor(x, device=pair[0][0].weight.device))
                       for pair in zip(models, optimizers, strict=True))  # fmt: skip
        assert here == pytest.approx(there, rel=tolerance)
    for source, target in ((0, 1), (1, 0)):  # states move between devices
        models[target].load_state_dict(models[source].state_dict())
        again = make(models[target].parameters())
        again.load_state_dict(optimizers[source].state_dict())
        for state in again.state.values():
            assert all(a.ndim == 0 or devices.device_of(a) == models[target][0].weight.device
                       for a in state.values())  # fmt: skip
        before = {name: p.clone() for name, p in models[source].state_dict().items()}
        losses = [step(models[i], o, mg.as_tensor(x, device=models[i][0].weight.device))
                  for i, o in ((source, optimizers[source]), (target, again))]  # fmt: skip
        assert losses[0] == pytest.approx(losses[1], rel=tolerance)
        for (name, p), q in zip(models[0].state_dict().items(), models[1].parameters(), strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=tolerance, atol=tolerance)
            assert not np.array_equal(before[name].numpy(), p.numpy())


def test_files_hold_tensors_of_either_device(gpu, tmp_path):
    model = nn.BatchNorm1d(3).to("cuda")
    model(mg.randn(4, 3, device="cuda"))
    mg.save_file(model.state_dict(), tmp_path / "model.safetensors")
    here, there = (mg.load_file(tmp_path / "model.safetensors", device) for device in (None, "cuda"))
    for name, value in model.state_dict().items():
        assert (here[name].device, there[name].device, value.device) == ("cpu", "cuda:0", "cuda:0")
        np.testing.assert_array_equal(here[name].numpy(), value.numpy())
        np.testing.assert_array_equal(there[name].numpy(), value.numpy())
    other = nn.BatchNorm1d(3)
    other.load_state_dict(there)
    assert other.running_mean.device == "cpu"


MODELS = {
    "Transformer": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 2, 0.1, attention_dropout=0.2)),
        (np.array([[4, 5, 6, 0], [7, 8, 9, 10]]), np.array([[2, 5, 6], [2, 9, 9]])),
    ),
    "learned positions, pre-norm": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 1, 0.0, norm_first=True, positions="learned")),
        (np.array([[4, 5, 0], [7, 8, 9]]), np.array([[2, 5, 6], [2, 9, 9]])),
    ),
    "GPT": (
        lambda: GPT(GPTConfig(11, 8, 8, 2, 2)),
        (np.array([[4, 5, 6, 0], [7, 8, 9, 10]]),),
    ),
    "Llama, grouped queries": (
        lambda: Llama(LlamaConfig(11, 8, 12, 1, 4, 2)),
        (np.array([[4, 5, 6, 0], [7, 8, 9, 10]]),),
    ),
    "T5's bias, RMSNorm": (
        lambda: Transformer(TransformerConfig(11, 8, 2, 16, 1, 1, 0.0, positions="t5", norm="rms_norm")),
        (np.array([[4, 5, 0], [7, 8, 9]]), np.array([[2, 5, 6], [2, 9, 9]])),
    ),
    "ALiBi": (
        lambda: GPT(GPTConfig(11, 8, 8, 1, 2, positions="alibi", activation_function="swiglu")),
        (np.array([[4, 5, 6, 0], [7, 8, 9, 10]]),),
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fused", [True, False])
def test_models_learn_as_on_the_cpu(gpu, name, fused):
    make, inputs = MODELS[name]
    (losses, states), (others, ours) = (learned(model, inputs, fused) for model in twin(make))
    assert losses == pytest.approx(others, rel=1e-12)
    for name, value in states.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-9, atol=1e-10)


def learned(model, inputs, fused):
    """The losses of two steps of training, and the weights then."""
    mg.manual_seed(5)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        with mg.fused(fused):
            logits = model(*inputs)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), inputs[-1].reshape(-1), ignore_index=0, label_smoothing=0.1
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: p.numpy() for name, p in model.state_dict().items()}


@pytest.mark.parametrize("name", ["Transformer", "GPT"])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 5, "seed": 1}, {"num_beams": 3}])
def test_generation_is_as_on_the_cpu(gpu, name, use_cache, options):
    texts = [
        generate(model, [[4, 5, 6], [7, 8]], 6, use_cache=use_cache, **options)
        for model in twin(MODELS[name][0])
    ]
    assert texts[0] == texts[1]


def test_a_cached_text_may_grow_by_several_tokens(gpu):
    texts = []
    for model in twin(MODELS["GPT"][0]):
        model.eval()
        cache = model.new_cache()
        with mg.no_grad():
            model.states(np.array([[4, 5]]), cache)
            texts.append(model.states(np.array([[6, 7, 8]]), cache).numpy())
    np.testing.assert_allclose(*texts, rtol=1e-10, atol=1e-12)


RECIPES = ["bert-answers", "bert-classify", "bert-mlm", "bert-similar", "bert-tag", "brackets", "reverse"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_first_step_of_a_recipe_is_as_on_the_cpu(gpu, name):
    recipe = load_recipe(name)
    kind = task_class(recipe.task)
    splits = kind.splits(recipe.data, Sources(None))
    tokenizer = kind.train_tokenizer(recipe.data, getattr(recipe.model, "vocab_size", 0), splits)
    splits = kind.filter(recipe.data, tokenizer, splits)
    labels = kind.labels(recipe.data, splits)
    task = kind.build(recipe, tokenizer, splits, labels)
    model = model_class(recipe.model_type)(kind.model_config(recipe.model, tokenizer, labels)).to("cuda")
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    batch = first_rows(task, task.next_batch(), 4)

    def step():
        loss = task.loss(model, batch, recipe.training.label_smoothing) / batch.n_tokens
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    report = mg.shadow(step)
    assert report, report
    assert report.operations > 20
    assert report.updates


# ---------------------------------------------------------------- looking at it


def test_a_graph_is_drawn_of_what_is_on_a_gpu(gpu, tmp_path):
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


# ---------------------------------------------------------------- the trainer and the command line


def trainer(folder, device):
    tokenizer = Tokenizer.train_word([side for pair in PAIRS for side in pair])
    config = TrainConfig(steps=4, warmup_steps=2, checkpoint_every=2, validate_every=2, log_every=1)
    mg.manual_seed(0)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, 8, 2, 16, 1, 1, 0.2, attention_dropout=0.2))
    task = Translation(tokenizer, PAIRS, PAIRS[:3], 64, 0)
    return Trainer(model.double().to(device), task, config, folder)


def weights(trainer):
    return {name: p.numpy() for name, p in trainer.model.state_dict().items()}


def test_a_run_is_the_same_on_either_device_and_goes_on_on_the_other(gpu, tmp_path):
    runs = {device: trainer(tmp_path / device, device) for device in ("cpu", "cuda")}
    for run in runs.values():
        run.train()
    for name, value in weights(runs["cpu"]).items():
        np.testing.assert_allclose(weights(runs["cuda"])[name], value, rtol=1e-6, atol=1e-8)
    for device, other in (("cpu", "cuda"), ("cuda", "cpu")):
        again = trainer(tmp_path / device, other)
        assert again.resume()
        again.config = dataclasses.replace(again.config, steps=6)
        again.train()
        assert {p.device for p in again.model.parameters()} == {check_device(other)}
        runs[f"{device}, then {other}"] = again
    one, two = (weights(runs[name]) for name in ("cpu, then cuda", "cuda, then cpu"))
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-6, atol=1e-8)


def test_commands_take_a_device(gpu, cli):
    text = {}
    for device in ("cpu", "auto"):
        said = [cli("generate", "play", "--prompt", "ROMEO", "--max-new-tokens", "20", "--device", device),
                cli("translate", "mine", "I love you", "--device", device),
                cli("evaluate", "mine", "--data", "pairs.tsv", "--json", "--device", device)]  # fmt: skip
        assert [code for code, *_ in said] == [0, 0, 0], said
        text[device] = [out for _, out, _ in said[:2]]
        scores = json.loads(said[2][1])
        assert scores["loss"] == pytest.approx(text.setdefault("loss", scores["loss"]), rel=1e-5)
    assert text["cpu"] == text["auto"]
    assert cli("graph", "mine", "I love you", "-o", "graph.html", "--device", "cuda")[0] == 0
    for recipe, data, flags in (
        ("phrasebook", "pairs.tsv", TINY),
        ("shakespeare-char", "text.txt", TINY_GPT),
    ):
        code, _, err = cli("train", recipe, "--data", data, "--run-dir", "there", "--overwrite",
                           *flags, "--device", "cuda")  # fmt: skip
        assert code == 0, err
        assert "on cuda:0" in err


def test_a_device_that_is_not_there_is_a_mistake(cli):
    code, _, err = cli("train", "phrasebook", "--device", "tpu")
    assert code == 2
    assert "unknown device 'tpu'" in err


def test_the_recipe_for_a_gpu_is_nanogpts():
    recipe = load_recipe("shakespeare-char")
    model, training = recipe.model, recipe.training
    assert (model.n_layer, model.n_head, model.n_embd, model.n_positions) == (6, 6, 384, 256)
    assert (recipe.data.batch_size, recipe.data.block_size) == (64, 256)
    assert (training.steps, training.lr, training.min_lr, training.warmup_steps) == (5000, 1e-3, 1e-4, 100)
    assert {model.embd_pdrop, model.resid_pdrop, model.attn_pdrop} == {0.2}
    assert training.betas == (0.9, 0.99)


# ---------------------------------------------------------------- a step on both


def a_step(device, dtype="float32"):
    mg.manual_seed(0)
    model = GPT(GPTConfig(11, 8, 8, 1, 2)).to(device, dtype)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    ids = np.array([[4, 5, 6, 0], [7, 8, 9, 10]])

    def step():
        optimizer.zero_grad()
        logits = model(ids)
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.reshape(-1)).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return model, step


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_shadowed_step_is_the_same_on_both(gpu, device, dtype):
    _, step = a_step(device, dtype)
    report = mg.shadow(step)
    assert report.passed, report
    assert min(report.operations, report.gradients) >= 20
    assert report.updates
    assert "same on both" in str(report)


def test_a_shadowed_step_is_the_step_itself(gpu):
    one, plain = a_step("cuda")
    plain()
    two, watched = a_step("cuda")
    mg.shadow(watched)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def replace_kernel(monkeypatch, record, change):
    """Register `change` of what computes a record on the GPU now, in place of it."""
    array = mg.zeros(1, device="cuda").array
    by_definition = record.definition if isinstance(record, Routine) else record.run_definition
    right = next(kernels_for(record, kind_of([array])), by_definition)
    monkeypatch.setitem(record.kernels, mg.kernels.kernels(array).name, [change(right)])


def wrong_value(kernel):
    def broken(*args, **settings):
        value, gradients = kernel(*args, **settings)
        return value * 1.01, gradients

    return broken


def wrong_gradient(kernel):
    def broken(*args, **settings):
        value, gradients = kernel(*args, **settings)
        return value, lambda g, needs: tuple(r if r is None else r * 1.01 for r in gradients(g, needs))

    return broken


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        (
            "gelu",
            wrong_value,
            r"^gelu at .*layers/\w+\.py:\d+: float32\[2, 4, 32\] differs in \d+ of 256",
        ),
        ("layer_norm", wrong_gradient, r"^the gradient of layer_norm \(recorded at .*, for its input 0"),
    ],
)
def test_shadow_names_the_first_op_that_differs(gpu, monkeypatch, name, fault, words):
    _, step = a_step("cuda")
    replace_kernel(monkeypatch, OURS[name], fault)
    assert re.search(words, mg.shadow(step).first)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_step_is_not_shadowed_by_its_own_device(gpu, device):
    _, step = a_step(device)
    with pytest.raises(mg.OptionError, match=f"the whole step ran on {device}(:0)?, the device to compare"):
        mg.shadow(step, other=device)


def test_what_a_step_does_on_the_other_device_is_passed_by(gpu):
    _, step = a_step("cuda")
    alone = mg.shadow(step)
    beside = mg.shadow(lambda: (mg.ones(3) * 2, step()), other="cpu")
    assert str(beside) == str(alone)


def test_shadow_names_an_update_that_differs(gpu, monkeypatch):
    _, step = a_step("cuda")
    replace_kernel(monkeypatch, adam_update, lambda adam: lambda p, *rest: (adam(p, *rest), p.__imul__(1.5)))
    assert mg.shadow(step).first.startswith("AdamW.step of shape")
