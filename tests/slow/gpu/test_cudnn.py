"""Attention through cuDNN: that it computes what the CPU's kernels compute, and what goes to it.

Where there is no GPU a stand-in computes what the graphs say that minigrad gives to cuDNN (`standin.cudnn`).
"""

import contextlib
import gc
from importlib.util import find_spec

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core.devices import find_backend, on_cpu
from minigrad.core.dtypes import as_dtype
from minigrad.core.random import Key
from minigrad.kernels.cuda.fused import cudnn
from minitransformer.layers.attention import multi_head_attention
from tests.kernel_sets import Kernels
from tests.kernels.test_numpy_and_numba import draw
from tests.slow.gpu.test_cuda_kernels import here, there
from tests.slow.standin import cublas, emulator
from tests.slow.standin import cudnn as standin_cudnn

cpu, fused = Kernels("numpy"), Kernels("cuda")
KEY = Key(seed=5, stream=2, step=3, call=4, row=0)
ERRORS = {"float16": 2**-11, "bfloat16": 2**-8}


@pytest.fixture
def device(gpu, monkeypatch):
    """A GPU, or the stand-in for one, with cuDNN; gives what it ran: forward (5 arrays) or backward (9)."""
    run = cudnn._run
    ran = []

    def counted(arrays, *rest):
        done = run(arrays, *rest)
        if done:
            ran.append(len(arrays) + 1)
        return done

    monkeypatch.setattr(cudnn, "_run", counted)
    with contextlib.ExitStack() as stack:
        if gpu == "standin":
            stack.enter_context(standin_cudnn.installed())
        elif not find_spec("cudnn"):
            pytest.skip("cuDNN's frontend is not installed (pip install nvidia-cudnn-frontend)")
        mg.tensor(0.0, device="cuda")
        stack.enter_context(kernels.use("cuda"))
        yield ran


def compared(name, arrays, settings, dtype, g=None):
    """Hold value and gradients in 16 bits against the CPU's in 32, of the same numbers."""
    narrow = [x if x is None or x.dtype == bool else x.astype(dtype) for x in arrays]
    wide = [x if x is None or x.dtype == bool else x.astype(np.float32) for x in narrow]
    expected, gradient = getattr(cpu, name)(*wide, **settings)
    value, ours = getattr(fused, name)(*map(there, narrow), **settings)
    g = draw(*expected.shape, seed=9).astype(dtype) if g is None else g
    needs = [x is not None and x.dtype != bool for x in arrays]
    theirs = gradient(np.array(here(g), np.float32), needs)
    pairs = [(value, expected), *zip(ours(there(g), needs), theirs, strict=True)]
    error = 4 * ERRORS[np.dtype(dtype).name]
    for a, b in pairs:
        if b is not None:
            assert a.dtype == dtype
            np.testing.assert_allclose(
                here(a).astype(np.float32), b, rtol=error, atol=error * np.abs(b).max()
            )


def settings(is_causal=False, **others):
    return {"is_causal": is_causal, "scale": 0.2, "dropout_p": 0.0, "key": None} | others


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(128, 128), (256, 128), (128, 256)])
def test_cudnn_attention_matches_the_cpu(queries, keys, is_causal, dtype, device):
    """A causal query i sees the keys up to i, however many there are of each."""
    q = draw(2, 3, queries, 16)
    k = draw(2, 3, keys, 16, seed=1)
    v = draw(2, 3, keys, 24, seed=2)
    compared("scaled_dot_product_attention", (q, k, v, None), settings(is_causal), as_dtype(dtype))
    assert device == [5, 9]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("crossed", [False, True])
def test_cudnn_multi_head_attention_matches_the_cpu(crossed, is_causal, dtype, device):
    x, memory = (draw(2, 128, 32), draw(2, 256, 64, seed=1)) if crossed else (draw(2, 128, 96), None)
    how = {"is_causal": is_causal, "num_heads": 2}
    compared("multi_head_attention", (x, memory, None), how, as_dtype(dtype))
    assert device == [5, 9]


@pytest.mark.parametrize("shape", [(128, 8), (3, 128, 8), (2, 1, 3, 128, 8)])
def test_cudnn_attention_with_any_number_of_batch_axes(shape, device):
    arrays = [draw(*shape, seed=i) for i in range(3)]
    compared("scaled_dot_product_attention", (*arrays, None), settings(True), as_dtype("bfloat16"))
    assert device == [5, 9]


def test_cudnn_attention_with_broadcast_keys_and_gradients(device):
    """cuDNN expands nothing: it is given copies."""
    dtype = as_dtype("bfloat16")
    q = draw(2, 3, 128, 8)
    k = draw(2, 1, 128, 8, seed=1)
    v = draw(128, 8, seed=2)
    wide = [x.astype(dtype).astype(np.float32) for x in (q, k, v)]
    expected, gradient = cpu.scaled_dot_product_attention(*wide, None, **settings())
    value, ours = fused.scaled_dot_product_attention(
        *(there(x.astype(dtype)) for x in (q, k, v)), None, **settings()
    )
    g = np.ones((1, 1, 1, 1), dtype)
    library = find_backend("cuda").library
    found = ours(library.broadcast_to(there(g), q.shape), [True] * 4)
    pairs = zip(found[:3], gradient(np.ones(q.shape, np.float32), [True] * 4)[:3], strict=True)
    for a, b in ((value, expected), *pairs):
        a = here(a).astype(np.float32)
        np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), atol=0.03 * np.abs(b).max())
    assert device == [5, 9]


@pytest.mark.parametrize("wide", [27, 32])
def test_unaligned_arrays_are_copied_for_cudnn(wide, device):
    """cuDNN reads 16 bytes at a time, and refuses what does not begin or go on at a multiple of them."""
    row = there(draw(1, 2, 128, wide).astype(as_dtype("bfloat16")))
    parts = [row[..., begin : begin + 8] for begin in (3, 11, 19)]
    value, _ = fused.scaled_dot_product_attention(*parts, None, **settings())
    expected, _ = cpu.scaled_dot_product_attention(
        *(here(x).astype(np.float32) for x in parts), None, **settings()
    )
    np.testing.assert_allclose(here(value).astype(np.float32), expected, rtol=0.02, atol=0.02)
    assert device == [5]


def test_arrays_readable_by_cudnn_are_not_copied(device):
    x = there(draw(2, 128, 48).astype(as_dtype("bfloat16")))
    heads = x.reshape(2, 128, 3, 2, 8).transpose(2, 0, 3, 1, 4)
    for view in (*heads, heads[1][:1], heads[2][:, 1:], x[0, :, :24][None, None], heads[0][:, :, ::2]):
        assert cudnn._readable(view) is view
    for view in (heads[0].swapaxes(2, 3), heads[0][..., ::2], heads[0][:, :, ::-1]):
        assert cudnn._readable(view).flags.c_contiguous


# ---------------------------------------------------------------- what goes to it


def of(dtype="bfloat16", queries=128, keys=128, width=8, value_width=8):
    """Arrays q, k and v."""
    shapes = (queries, width), (keys, width), (keys, value_width)
    return [draw(1, 1, *shape, seed=i).astype(as_dtype(dtype)) for i, shape in enumerate(shapes)]


MASK = np.random.default_rng(1).random((128, 128)) > 0.5
OTHERS = {
    "32 bits": (of("float32"), None, {}),
    "a mask": (of(), MASK, {}),
    "dropout": (of(), None, {"dropout_p": 0.5, "key": KEY}),
    "a length between": (of(queries=64), None, {}),
    "a text that grows": (of(keys=129), None, {}),
    "a width between": (of(width=12), None, {}),
    "values of a width between": (of(value_width=12), None, {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_inputs_unsupported_by_cudnn_use_the_fallback_kernel(name, device):
    if not emulator.compiler() and find_backend("cuda").library.__version__.endswith("(a stand-in)"):
        pytest.skip("there is neither a GPU nor a C++ compiler (g++, clang++) on this machine")
    arrays, mask, how = OTHERS[name]
    dtype = arrays[0].dtype
    if dtype == np.float32:
        value, _ = fused.scaled_dot_product_attention(*map(there, arrays), None, **settings())
        expected, _ = cpu.scaled_dot_product_attention(*arrays, None, **settings())
        np.testing.assert_allclose(here(value), expected, rtol=1e-5, atol=1e-6)
    else:
        compared("scaled_dot_product_attention", (*arrays, mask), settings(**how), dtype)
    assert device == []


def test_cudnn_takes_reports_supported_inputs(device):
    """128 wide is taken; wider is not, and nothing is while it is switched off."""
    assert cudnn.takes(*map(there, of(width=128)))
    assert not cudnn.takes(*map(there, of(width=136)))
    assert not cudnn.takes(*map(there, of("float64")))
    with cudnn.use(False):
        assert not cudnn.takes(*map(there, of()))
    assert cudnn.takes(*map(there, of()))


def test_cudnn_is_not_used_without_its_frontend(gpu):
    if gpu != "standin":
        pytest.skip("where the frontend is missing")
    mg.tensor(0.0, device="cuda")
    assert not cudnn.takes(*map(there, of()))


# ---------------------------------------------------------------- plans, on the stand-in


@pytest.fixture
def frontend(gpu, device):
    """The stand-in's frontend."""
    if gpu != "standin":
        pytest.skip("it looks into the stand-in")
    import cudnn as frontend

    return frontend


def attend(arrays, **how):
    value, gradient = fused.scaled_dot_product_attention(*map(there, arrays), None, **settings(**how))
    gradient(value, [True] * 4)
    return value


def test_cudnn_plans_are_cached(frontend):
    for _ in range(3):
        attend(of())
    assert (len(frontend.plans), len(frontend.runs)) == (2, 6)
    others = [(of("float16"), {}), (of(), {"is_causal": True}), (of(), {"scale": 0.3}), (of(keys=256), {})]
    for number, (arrays, how) in enumerate(others):
        attend(arrays, **how)
        assert len(frontend.plans) == 4 + 2 * number
    q, k, v = of()
    attend([q, k.swapaxes(-1, -2).copy().swapaxes(-1, -2), v])  # copied: it lies as before
    assert len(frontend.plans) == 10
    projections = there(draw(1, 128, 24).astype(q.dtype))
    fused.multi_head_attention(projections, None, None, num_heads=1)
    assert len(frontend.plans) == 11  # which lies otherwise


@pytest.mark.parametrize("backward", [False, True])
def test_failed_cudnn_plans_use_the_fallback_kernel(backward, frontend, monkeypatch):
    """Forward's statistics serve either backward."""
    if not emulator.compiler():
        pytest.skip("our kernel runs in the emulator, which needs a C++ compiler (g++, clang++)")
    asked = []

    def refuse(self, heuristics):
        asked.append(self.node)
        if ("g" in self.node) is backward:
            raise frontend.cudnnGraphNotSupportedError("No valid engine configs")
        self._step("create_execution_plans")

    monkeypatch.setattr(frontend.pygraph, "create_execution_plans", refuse)
    for _ in range(2):
        compared("scaled_dot_product_attention", (*of(), None), settings(True), as_dtype("bfloat16"))
    assert len(asked) == 2
    assert ["g" in graph.node for graph, _ in frontend.runs] == [not backward] * 2


def test_other_cudnn_errors_propagate(frontend, monkeypatch):
    def fail(self):
        raise RuntimeError("CUDNN_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(frontend.pygraph, "build_plans", fail)
    with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
        attend(of())


# ---------------------------------------------------------------- captured


@pytest.fixture
def recorded(gpu, device):
    """What ran through cuDNN, where all of a step can be captured."""
    with contextlib.ExitStack() as stack:
        if gpu == "standin":
            stack.enter_context(cublas.installed())
        elif not find_spec("nvmath"):
            pytest.skip("products can be captured with nvmath-python only")
        yield device


class Step:
    """Attention of a projection in 16 bits; its loss, and the gradient of its weight."""

    def __init__(self):
        self.weight = mg.tensor(draw(16, 48, seed=3), device="cuda", requires_grad=True)

    def __call__(self, x, target):
        self.weight.grad = None
        with mg.autocast(dtype="bfloat16"):
            y = multi_head_attention(x @ self.weight, None, None, 2, is_causal=True)
        loss = ((y.float() - target) ** 2).mean()
        loss.backward()
        return loss, self.weight.grad


def batches(number):
    for i in range(number):
        yield draw(2, 128, 16, seed=i), draw(2, 128, 16, seed=i + 50)


def test_a_step_is_captured_and_replayed(recorded, gpu):
    """The same numbers; on a GPU to the roundings of another order of sums."""
    plain = [[on_cpu(r.array) for r in Step()(*map(on_gpu, pair))] for pair in batches(5)]
    assert recorded == [5, 9] * 5
    step = mg.capture(Step(), "cuda")
    for pair, expected in zip(batches(5), plain, strict=True):
        found = [on_cpu(r.array) for r in step(*pair)]
        for a, b in zip(found, expected, strict=True):
            rtol, atol = (0, 0) if gpu == "standin" else (1e-2, 1e-5)
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    assert step.recordings == 1
    assert recorded == [5, 9] * 8  # two steps that run as they are, and the one that is recorded


def test_captured_steps_keep_their_cudnn_plans(recorded):
    """Of what a replay launches nothing may go, also when its plan is forgotten."""
    step = mg.capture(Step(), "cuda")
    expected = [[on_cpu(r.array) for r in step(*pair)] for pair in list(batches(1)) * 3]
    cudnn._plan.cache_clear()
    gc.collect()
    found = [on_cpu(r.array) for r in step(*next(batches(1)))]
    np.testing.assert_allclose(found[1], expected[-1][1], rtol=1e-2, atol=1e-5)
    graphs = [x for x in next(iter(step.steps.values())).graph.kept.values() if isinstance(x, cudnn._Plan)]
    assert len(graphs) == 2


def on_gpu(x):
    return mg.tensor(x, device="cuda")
