"""The kernels in CUDA C: that they compile for a GPU, and that they compute what NumPy's do.

Where there is no GPU the same sources are compiled as C++ and run by `standin.emulator`, launched by the same
Python code. NVRTC, which compiles them for a GPU, needs none.
"""

import ctypes
import functools
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import kernels
from minigrad.core.backward import unbroadcast
from minigrad.core.devices import find_backend, is_array
from minigrad.core.dtypes import as_dtype
from minigrad.core.random import Key
from minigrad.kernels.cuda.fused import launching
from minigrad.ops.draws import keep_mask
from minigrad.ops.sample_calls import forms, samples_of
from tests.kernel_sets import Kernels, registered
from tests.kernels.test_numpy_and_numba import CASES as ALL_CASES
from tests.kernels.test_numpy_and_numba import draw, run
from tests.slow.gpu import test_training
from tests.slow.gpu.test_devices import OURS, assert_close, results
from tests.slow.standin import emulator
from tests.slow.sweeps import test_magnitudes

SOURCES = sorted(path.stem for path in launching.SOURCES.glob("*.cu"))
NUMBERS = {  # by which some sources are compiled several times
    "attention": [{"WIDTH": 32}, {"WIDTH": 64}, {"WIDTH": 128}, {"WIDTH": 64, "BITS": 32}],
    "dropout": [{"BITS": 16}, {"BITS": 32}],
    "losses": [{}, {"RESULT": "float"}],
    "normalization": [{}, {"PARAMETER": "float"}],
}
VARIANTS = [
    (source, dtype, numbers)
    for source in SOURCES
    for dtype in launching.SCALARS
    for numbers in NUMBERS.get(source, [{}])
]
BY_DEFINITION = {"rnn", "lstm", "gru", "relu"}  # on GPUs
CASES = {name: cases for name, cases in ALL_CASES.items() if name not in BY_DEFINITION}
cpu = Kernels("numpy")
fused = Kernels("cuda")
cuda = Kernels("cupy")
KEY = Key(seed=2**63 + 5, stream=2, step=3, call=4, row=0)


# ---------------------------------------------------------------- compiled for a GPU


@functools.cache
def nvrtc():
    """NVRTC from its wheel, or a test that is skipped."""
    try:
        folders = find_spec("nvidia.cu13").submodule_search_locations
    except (ModuleNotFoundError, AttributeError):
        folders = ()
    found = [path for folder in folders for path in Path(folder).glob("lib/libnvrtc.so.*")]
    return ctypes.CDLL(str(found[0])) if found else None


def compiled(source, dtype, numbers, target):
    """What NVRTC makes of a source, or an error with its log."""
    library = nvrtc()
    if library is None:
        pytest.skip("NVRTC is not installed (pip install nvidia-cuda-nvrtc)")
    program = ctypes.c_void_p()
    size = ctypes.c_size_t()
    code = launching.code(source).encode()
    assert not library.nvrtcCreateProgram(ctypes.byref(program), code, source.encode(), 0, None, None)
    options = [f"--gpu-architecture={target}".encode(), b"-ftz=true"]  # as CuPy does
    options += [option.encode() for option in launching.options(as_dtype(dtype), **numbers)]
    result = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))

    def text(of):
        getattr(library, f"nvrtcGet{of}Size")(program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{of}")(program, out)
        return out.raw

    log = text("ProgramLog").decode().strip("\0\n")
    assert not result, log
    assert not log, log  # nor a warning
    out = text("CUBIN" if target.startswith("sm") else "PTX")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return out


@pytest.mark.parametrize(("source", "dtype", "numbers"), VARIANTS, ids=str)
def test_every_source_compiles_for_a_gpu(source, dtype, numbers):
    found = compiled(source, dtype, numbers, "compute_90")
    for name in emulator.KERNEL.findall(launching.code(source)):
        assert f".entry {name}(".encode() in found


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_is_assembled_for_old_and_new_gpus(source):
    numbers = {"WIDTH": 64} if source == "attention" else {}
    for target in ("sm_75", "sm_90"):
        assert compiled(source, "float16", numbers, target).startswith(b"\x7fELF")


def test_errors_in_a_cuda_source_are_found(monkeypatch):
    right = launching.code("gelu")
    monkeypatch.setattr(launching, "code", lambda source: right.replace("erfc(", "erfd("))
    with pytest.raises(AssertionError, match="erfd"):
        compiled("gelu", "float32", {}, "compute_90")


# ---------------------------------------------------------------- run


@pytest.fixture
def device(gpu):
    """A GPU, or the stand-in for one, that runs the kernels."""
    if gpu == "standin" and not emulator.compiler():
        pytest.skip("there is neither a GPU here nor Linux with a C++ compiler (g++, clang++)")
    mg.tensor(0.0, device="cuda")
    with kernels.use("cuda"):
        yield gpu


def there(x):
    """An array on the GPU; what is no array as it is."""
    return find_backend("cuda").library.array(x) if isinstance(x, np.ndarray) else x


def here(x):
    return x.get() if is_array(x) and not isinstance(x, np.ndarray) else x


def on_gpu(name, *arrays, **settings):
    """The value and the gradient function of an op on the GPU, of NumPy arrays."""
    value, gradient = OURS[name].run([*map(there, arrays)], settings)
    return here(value), lambda g, needs: [here(d) for d in gradient(there(np.asarray(g)), needs)]


def run_fused(name, arrays, settings):
    """`run` of the tests of kernels, on the GPU."""
    return run(types.SimpleNamespace(**{name: functools.partial(on_gpu, name)}), name, arrays, settings)


def long(*shape, **options):
    return draw(*shape, **options) + np.float32(3)


MASKED = np.random.default_rng(8).random((2, 1, 40, 70)) > 0.5
MASKED[0, 0, 3] = False  # a query that may see nothing
HEADS = {"is_causal": False, "scale": 0.5, "dropout_p": 0.3, "key": KEY}
MANY = {  # what the others' cases are too small for: rows of whole blocks, several tiles, wide heads
    "softmax": [
        ((draw(5, 33),), {"dim": -1}), ((draw(3, 1500, scale=5),), {"dim": 1}),
        ((np.zeros((0, 4), np.float32),), {"dim": 1}),
    ],
    "log_softmax": [
        ((draw(5, 33),), {"dim": -1}), ((draw(3, 5000, scale=5),), {"dim": -1}),
        ((np.array(draw()),), {"dim": -1}),
    ],
    "gelu": [((draw(70_000),), {})],
    "layer_norm": [
        ((long(3, 1100), draw(1100), draw(1100)), {"normalized_shape": (1100,), "eps": 1e-5}),
        ((long(700, 40), draw(40), None), {"normalized_shape": (40,), "eps": 1e-5}),
    ],
    "rms_norm": [((long(3, 1100), draw(1100)), {"normalized_shape": (1100,), "eps": 1e-5})],
    "cross_entropy": [
        (arrays, {"ignore_index": -1, "reduction": how, "label_smoothing": smoothing})
        for arrays, how, smoothing in [
            ((draw(1030, 5), np.random.default_rng(1).integers(-1, 5, 1030)), "mean", 0.1),
            ((draw(1030, 5), np.random.default_rng(1).integers(-1, 5, 1030)), "none", 0.1),
            ((draw(2, 1100), np.array([5, 1099], np.int32)), "sum", 0.0),
        ]
    ],
    "embedding": [
        ((draw(7, 200), np.random.default_rng(2).integers(0, 7, (3, 200))), {}),
        ((draw(2000, 3), np.random.default_rng(2).integers(0, 2000, 90)), {}),
        ((draw(4, 3), np.array(2)), {}),
    ],
    "scaled_dot_product_attention": [
        ((draw(3, 4), draw(200, 4), draw(200, 4), None), HEADS),
        *(
            ((draw(2, 2, 40, n), draw(2, 1, 70, n, seed=1), draw(70, n - 2, seed=2), mask),
             {"is_causal": causal, "scale": n**-0.5, "dropout_p": p, "key": KEY._replace(row=3)})
            for n, mask, causal, p in (
                (32, None, True, 0.2), (50, MASKED, False, 0.2), (128, None, True, 0.0),
                (128, MASKED, True, 0.4),
            )
        ),
    ],
    "multi_head_attention": [
        ((draw(1, 130, 120), None, None), {"num_heads": 2, "key": KEY, "is_causal": True, "dropout_p": 0.1}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cuda_kernels_agree_with_numpy_kernels(name, device):
    for arrays, settings in CASES[name] + MANY.get(name, []):
        value, gradients = run_fused(name, arrays, settings)
        expected, theirs = run(cpu, name, arrays, settings)
        assert value.shape == np.shape(expected)
        np.testing.assert_allclose(value, expected, rtol=4e-6, atol=4e-6, err_msg=str(settings))
        assert len(gradients) == len(theirs)
        for ours, other in zip(gradients, theirs, strict=True):
            assert ours.dtype == other.dtype == np.float32
            other = unbroadcast(other, ours.shape)  # the mask was broadcast
            largest = np.abs(other).max(initial=1)
            np.testing.assert_allclose(ours, other, rtol=1e-5, atol=5e-6 * largest, err_msg=str(settings))


POSITIONAL = {  # settings, as the cases of magnitudes pass them
    "log_softmax": ["dim"], "cross_entropy": ["ignore_index", "reduction", "label_smoothing"],
    "gelu": ["approximate"], "layer_norm": ["normalized_shape", "eps"],
    "rms_norm": ["normalized_shape", "eps"],
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIONAL)
def test_kernels_match_definitions_at_all_magnitudes(name, device):
    def kernel(*given):
        end = len(given) - len(POSITIONAL[name])
        return on_gpu(name, *given[:end], **dict(zip(POSITIONAL[name], given[end:], strict=True)))

    with np.errstate(all="ignore"):
        package = types.SimpleNamespace(**{name: kernel})
        for found, expected, bound in test_magnitudes.CASES[name](package, np.dtype(np.float32)):
            test_magnitudes.close(found, expected, bound, np.float32)


WIDE = [draw(2, 3, 5, 130), draw(2, 3, 7, 130, seed=1), draw(2, 3, 7, 6, seed=2)]
DECLINED = {  # what no kernel takes
    "softmax": ((draw(2, 3, 4),), {"dim": 1}),
    "scaled_dot_product_attention": (
        (*WIDE, draw(5, 7, seed=4)),
        {"is_causal": True, "scale": 0.1, "dropout_p": 0.3, "key": KEY},
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", DECLINED)
def test_inputs_without_a_cuda_kernel_run_the_definition(name, dtype, device):
    """As one node of the graph, whose gradient can be taken twice."""
    arrays, settings = DECLINED[name]
    assert getattr(fused, name)(*map(there, arrays), **settings) is None
    results = []
    for where in ("cpu", "cuda"):
        inputs = [mg.tensor(x, device=where).to(dtype).requires_grad_() for x in arrays]
        y = OURS[name].call(*inputs, **settings)
        assert y.node.op is OURS[name]
        g = mg.tensor(draw(*y.shape, seed=9), device=where).to(dtype)
        for _ in range(2):
            gradients = mg.autograd.grad(y, inputs, g, retain_graph=True)
        results.append([x.float().numpy() for x in (y, *gradients)])
    close = 3e-6 if dtype == "float32" else 2**-6
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close * np.abs(theirs).max())


def test_changing_arrays_saved_by_a_definition_raises(device):
    x = mg.tensor(draw(2, 3, 4), device="cuda", requires_grad=True)
    for changed in (x, y := OURS["softmax"].call(x, dim=1)):
        with mg.no_grad():
            changed.mul_(2)
        with pytest.raises(mg.GraphError, match="changed since by"):
            y.sum().backward(retain_graph=True)


ROUTINES = {"adam", "copy_all", "flatten", "scale", "total_norm"}
OWN = {*ROUTINES, "add", "astype", "dropout", "linear", "multiply"}  # these have tests of their own, below
TAKEN = {*OWN, *CASES}


def test_every_kernel_is_compared_with_numpys():
    kernels.sets["cuda"].loaded()
    composed = {"multi_head_attention", "quantized_linear"}  # composed of other ops, which have kernels
    assert registered("cuda") == TAKEN - composed


@pytest.mark.parametrize("name", sorted(set(CASES) - {"embedding"}))
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_half_precision_cuda_kernels_accumulate_in_float32(name, dtype, device):
    """From inputs of 16 bits come the results of float32, rounded once; of float64 its own."""
    wide = np.float64 if dtype == "float64" else np.float32
    dtype = as_dtype(dtype)
    error = {"float64": 1e-14, "float16": 2**-11, "bfloat16": 2**-8}[dtype.name]
    for arrays, settings in CASES[name]:
        floats = [isinstance(a, np.ndarray) and a.dtype == np.float32 for a in arrays]
        if name.endswith("attention") and floats[-1]:
            continue  # a mask of numbers is CuPy's
        narrow = [a.astype(dtype) if is_float else a for a, is_float in zip(arrays, floats, strict=True)]
        same = [a.astype(wide) if is_float else a for a, is_float in zip(narrow, floats, strict=True)]
        expected, gradient = getattr(cpu, name)(*same, **settings)
        value, ours = OURS[name].run([*map(there, narrow)], settings)
        assert value.dtype == dtype
        g = np.asarray(draw(*np.shape(expected), seed=9)).astype(dtype)
        pairs = [(here(value), expected)]
        pairs += zip(map(here, ours(there(g), floats)), gradient(g.astype(wide), floats), strict=True)
        for place, (a, b) in enumerate(pairs):
            if a is not None and (place == 0 or floats[place - 1]):
                assert a.dtype == dtype
                largest = np.abs(b).max(initial=1e-3)
                scale = 4 if name.endswith("attention") else 2.5  # backward has y rounded, too
                np.testing.assert_allclose(
                    a.astype(wide), b, rtol=scale * error, atol=scale * error * largest, err_msg=str(settings)
                )


@pytest.mark.parametrize("name", sorted(TAKEN - ROUTINES))
def test_every_op_with_a_cuda_kernel_matches_the_cpu(name, device):
    record = OURS[name]
    for sample in samples_of(record):
        for form in forms(record):
            for dtype, tolerance in (("float64", 1e-12), ("float32", 2e-6)):
                with mg.fused(form):
                    expected = results(record, sample, "cpu", dtype)
                    assert_close(results(record, sample, "cuda:0", dtype), expected, tolerance)


@pytest.mark.parametrize("name", test_training.MODELS)
def test_models_learn_as_on_the_cpu(name, device):
    test_training.test_models_learn_as_on_the_cpu(device, name, True)


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize(
    ("shape", "row"), [((1000,), 0), ((3, 5, 7), 0), ((2, 9), 11), ((513, 16), 2), ((1,), 3)]
)
@pytest.mark.parametrize("p", [0.1, 0.5, 1.0, 3.59e-4, 1 - 3.59e-4, 5e-6])  # the last three draw 32 bits
def test_dropout_draws_match_the_cpu(shape, row, p, device):
    key = KEY._replace(row=row)
    x = long(*shape)
    value, (gradient,) = fused.dropout(there(x), p, key)
    expected, (theirs,) = cpu.dropout(x, p, key)
    np.testing.assert_array_equal(here(value) != 0, keep_mask(key, shape, p))
    np.testing.assert_allclose(here(value), expected, rtol=2e-7)
    np.testing.assert_array_equal(here(gradient(there(x))), here(value))
    assert np.shape(theirs(x)) == shape


@pytest.mark.parametrize("p", [0.3, 3.59e-4, 1 - 3.59e-4])
def test_attention_dropout_matches_the_cpu(p, device):
    """Of 300 queries with 70 keys each, in value and gradients."""
    arrays = [draw(1, 2, n, 3, seed=i) for i, n in enumerate((300, 70, 70))]
    settings = {"is_causal": False, "scale": 0.5, "dropout_p": p, "key": KEY}
    call = "scaled_dot_product_attention", (*arrays, None), settings
    (value, gradients), (expected, theirs) = run_fused(*call), run(cpu, *call)
    for ours, other in zip((value, *gradients), (expected, *theirs), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-5 * abs(other).max())


# ---------------------------------------------------------------- 16 bits between layers


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_norms_of_16_bits_take_float32_parameters(name, half, device):
    """Statistics and sums are float32's, and so are the parameters and their gradients."""
    half = as_dtype(half)
    error = {"float16": 2**-11, "bfloat16": 2**-8}[half.name]
    for (x, *parameters), settings in CASES[name] + MANY[name]:
        x = x.astype(half)
        value, gradients = on_gpu(name, x, *parameters, **settings)
        expected, theirs = getattr(cpu, name)(x.astype(np.float32), *parameters, **settings)
        g = draw(*x.shape, seed=9).astype(half)
        needs = [a is not None for a in (x, *parameters)]
        ours, theirs = gradients(g, needs), theirs(g.astype(np.float32), needs)
        assert value.dtype == ours[0].dtype == half
        assert {a.dtype for a in ours[1:] if a is not None} <= {np.dtype(np.float32)}
        for a, b, rtol in [(value, expected, error), (ours[0], theirs[0], error)] + [
            (a, b, 1e-5) for a, b in zip(ours[1:], theirs[1:], strict=True) if a is not None
        ]:
            np.testing.assert_allclose(a.astype(np.float32), b, rtol=rtol, atol=rtol * np.abs(b).max())


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_cross_entropy_of_16_bits_in_float32(reduction, half, device):
    """Of the logits as they are: the loss is exact, and their gradient is rounded once."""
    half = as_dtype(half)
    x = draw(9, 1101, scale=3).astype(half)
    target = np.random.default_rng(1).integers(0, 1101, 9)
    settings = {"ignore_index": int(target[2]), "reduction": reduction, "label_smoothing": 0.1}
    value, gradient = on_gpu("cross_entropy", x, target, **settings, dtype="float32")
    expected, theirs = cpu.cross_entropy(x.astype(np.float32), target, **settings)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, expected, rtol=2e-6)
    g = np.asarray(draw(*np.shape(expected), seed=9))
    ours, theirs = gradient(g, (True, False))[0], theirs(g, (True, False))[0]
    assert ours.dtype == half
    np.testing.assert_allclose(ours.astype(np.float32), theirs, rtol=2**-8, atol=1e-7)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add", "multiply"])
def test_sums_and_products_of_16_bits_round_once(name, half, device):
    x, y, small = (draw(*shape).astype(as_dtype(half)) for shape in ((4, 3), (4, 3), (3,)))
    kernel = getattr(fused, name)
    (value, gradients), op = kernel(there(x), there(y)), OURS[name]
    wide = [a.astype(np.float32) for a in (x, y)]
    expected, theirs = op.rule(*wide)
    for a, b in [(value, expected)] + [
        (f(there(x)), g(wide[0])) for f, g in zip(gradients, theirs, strict=True)
    ]:
        assert here(a).dtype == x.dtype
        np.testing.assert_array_equal(here(a), np.asarray(b).astype(x.dtype))
    assert (kernel(there(x), there(small)) is None) == (name == "multiply")
    if name == "add":
        assert kernel(there(x), there(y), alpha=2) is None
    assert kernel(there(x), 2.0) is kernel(there(x), there(wide[1])) is None


def test_gelu_of_arrays_at_any_memory_offset(device):
    x = draw(103)
    for begin in range(5):
        value, gradient = fused.gelu(there(x)[begin:])
        expected, theirs = cpu.gelu(x[begin:])
        np.testing.assert_allclose(here(value), expected, rtol=1e-6, atol=1e-6)
        ours = gradient(there(x)[begin:], [True])[0]
        np.testing.assert_allclose(here(ours), theirs(x[begin:], [True])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "dtype"), [("cuda", "float32"), ("cuda", "float16"), ("cupy", "float32")])
def test_cuda_adam_matches_numpy(kind, dtype, device):
    """Gradients may have 16 bits. What changes from step to step is in memory, which a replay reads."""
    decoupled = [0.01, 0.1, 0.99, 0.01, 1.3, 1e-8, 0.98, 0.0]
    coupled = [0.02, 0.2, 0.9, 0.1, 1.2, 1e-6, 1.0, 0.02]
    memory = there(np.zeros(8, np.float32))
    for settings in np.array([decoupled, coupled], np.float32):
        p, g, m, v = (draw(1000, seed=i) for i in range(4))
        g = g.astype(dtype)
        ours = [there(a) for a in (p, g, m, np.abs(v))]
        expected = p, g.astype(np.float32), m, np.abs(v)
        cpu.adam(*expected, settings)
        memory[...] = there(settings)
        Kernels(kind).adam(*ours, memory)
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_allclose(here(a), b, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("infinite", [False, True])
def test_total_norm_and_scaling_of_many_arrays(dtype, infinite, device):
    shapes = [(3,), (70, 40), (5000,), (100, 700)]
    dtype = as_dtype(dtype)
    arrays = [draw(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes)]
    wide = [a.astype(np.float64) for a in arrays]
    norm = cpu.total_norm(wide, infinite)
    for library in (fused, cuda):
        ours = [there(a) for a in arrays]
        found = library.total_norm(ours, infinite)
        assert here(found) == pytest.approx(norm, rel=1e-6)
        for largest, factor in ((norm / 4, 0.25), (norm * 2, 1)):
            scaled = [x.copy() for x in ours]
            library.scale(scaled, found, largest)
            by_numpy = [x.copy() for x in wide]
            cpu.scale(by_numpy, norm, largest)
            for a, b, c in zip(scaled, wide, by_numpy, strict=True):
                np.testing.assert_allclose(c, b * factor, rtol=1e-6)
                np.testing.assert_allclose(
                    here(a).astype(np.float64), b * factor, rtol=1e-6 if dtype.itemsize > 2 else 1e-2
                )


@pytest.mark.parametrize("number", [1, 150])
def test_many_arrays_are_copied_at_once(number, device):
    """More than one launch takes, longer ones than a block's, and one of no elements."""
    shapes = (3, 5), (0,), (), (9001,)
    arrays = [np.asarray(draw(*shapes[i % 4], seed=i)) for i in range(number)]
    flat = np.concatenate([a.reshape(-1) for a in arrays])
    sources = [there(a) for a in arrays]
    out = there(np.zeros_like(flat))
    fused.flatten(sources, out)
    np.testing.assert_array_equal(here(out), flat)
    targets = [there(np.zeros_like(a)) for a in arrays]
    fused.copy_all(sources, targets)
    for a, b in zip(arrays, targets, strict=True):
        np.testing.assert_array_equal(here(b), a)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (5, 130), (1000, 128), (70, 6), (4100, 3)])
def test_bias_gradients_sum_over_rows(rows, size, dtype, device):
    dtype = as_dtype(dtype)
    g = draw(rows, size).astype(dtype)
    x = draw(rows, 2).astype(dtype)
    weight = draw(size, 2).astype(dtype)
    bias = draw(size).astype(dtype)
    _, gradient = fused.linear(*map(there, (x, weight, bias)))
    found = here(gradient(there(g), (False, False, True))[2])
    expected = g.astype(np.float64).sum(0)
    error = {8: 1e-14, 4: 1e-6}.get(dtype.itemsize, 2**-8 if dtype.name == "bfloat16" else 2**-11)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=error, atol=error * np.sqrt(rows))


KINDS = ["float32", "float16", "bfloat16"]


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_dtype_conversions_round_like_numpy(source, to, device):
    """In fours and beyond the last four; infinities, NaN, zeros and numbers that have no digits left."""
    special = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, 1e-45, 1e-40, 6e-8, 3.4e38])
    numbers = np.concatenate([special, draw(2000, scale=10)])
    with np.errstate(over="ignore"):
        x = numbers.astype(as_dtype(source))
        expected = x.astype(as_dtype(to))
    for start in (0, 1):  # the second does not begin at a multiple of four
        value, (gradient,) = fused.astype(there(x)[start:], dtype=to)
        assert value.dtype == as_dtype(to)
        np.testing.assert_array_equal(here(value).astype(np.float32), expected[start:].astype(np.float32))
        back = here(gradient(value))
        np.testing.assert_array_equal(
            back.astype(np.float32), expected[start:].astype(x.dtype).astype(np.float32)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("largest", [1.0, np.inf])
def test_scaling_by_a_non_finite_norm(largest, bad, dtype, device):
    arrays = [np.array(values, as_dtype(dtype)) for values in ([3.0, 4.0], [bad, 5.0])]
    expected = [a.astype(np.float64) for a in arrays]
    cpu.scale(expected, cpu.total_norm(expected, False), largest)
    for library in (fused, cuda):
        ours = [there(a) for a in arrays]
        library.scale(ours, library.total_norm(ours, False), largest)
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(here(a).astype(np.float64), b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_results_are_rounded_like_numpy(dtype, device):
    """To the nearest, ties to even; and those that are too large, and NaN."""
    dtype = as_dtype(dtype)
    ones = 1 + np.arange(64, dtype=np.float32) / 2**12  # bfloat16 has 8 bits of mantissa, float16 11
    small = np.float32([2**-24, 2**-25, 3 * 2**-26, 5e-6, 6.1e-5])
    large = np.float32([65504, 65519, 65520, 1e9, 3.4e38, np.inf, np.nan, 0.0, -0.0])
    p = np.concatenate([ones, -ones, small, large, -large])
    parts = there(p[None])  # a sum of one
    found = launching.sum_of_parts(parts, there(np.zeros(p.size, dtype)))
    with np.errstate(over="ignore"):
        expected = p.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(here(found).astype(np.float32), expected)
    again = here(fused.dropout(found, 0.0, KEY)[0])  # this reads them, too
    np.testing.assert_array_equal(again.astype(np.float32), expected)


def test_out_of_range_ids_give_nan_on_the_gpu(device):
    ids = np.array([0, 5, -1, 4])
    value, gradient = fused.embedding(there(draw(5, 3)), there(ids))
    assert np.isnan(here(value)).all(1).tolist() == [False, True, True, False]
    d = here(gradient(there(np.ones((4, 3), np.float32)), [True])[0])
    np.testing.assert_array_equal(d[:, 0], [1, 0, 0, 0, 1])
    value, gradient = fused.cross_entropy(there(draw(4, 3)), there(np.array([0, 3, -1, 2])), -1, "none", 0.0)
    assert np.isnan(here(value)).tolist() == [False, True, False, False]
    d = here(gradient(there(np.ones(4, np.float32)), [True])[0])
    assert np.isnan(d).all(1).tolist() == [False, True, False, False]
    assert not d[2].any()


def test_cuda_kernels_propagate_nan(device):
    x = draw(2, 9)
    x[0, 4] = np.nan
    bad = [
        fused.softmax(there(x), 1),
        fused.log_softmax(there(x), 1),
        fused.layer_norm(there(x), None, None, (9,), 1e-5),
        fused.cross_entropy(there(x), there(np.array([0, 1])), -100, "none", 0.0),
        fused.scaled_dot_product_attention(*[there(x)] * 3, None, True, 1.0, 0.0, None),
    ]
    for value, _ in bad:
        assert np.isnan(here(value)[0 if value.shape[0] == 2 and value is not bad[-1][0] else 1]).any()


@pytest.mark.parametrize("name", ["layer_norm", "embedding", "multi_head_attention", "cross_entropy"])
def test_cuda_kernels_are_deterministic(name, device):
    """In the emulator the threads go on in another order each time."""
    for arrays, settings in MANY[name]:
        (value, gradients), (again, others) = (run_fused(name, arrays, settings) for _ in range(2))
        for a, b in zip([value, *gradients], [again, *others], strict=True):
            np.testing.assert_array_equal(a, b)


def test_attention_does_not_allocate_the_score_matrix(device, monkeypatch):
    made = []
    empty = find_backend("cuda").library.empty
    record = lambda shape, dtype=float: made.append(np.prod(shape, dtype=int)) or empty(shape, dtype)
    monkeypatch.setattr(find_backend("cuda").library, "empty", record)
    run_fused("multi_head_attention", (draw(1, 300, 12), None, None),
              {"num_heads": 1, "key": KEY, "is_causal": True, "dropout_p": 0.5})  # fmt: skip
    assert made
    assert max(made) <= 300 * 12


# ---------------------------------------------------------------- the emulator can fail

FAULTY = """
extern "C" __global__ void reverse(const float* x, float* y) {
    __shared__ float all[64];
    all[threadIdx.x] = x[threadIdx.x];
    BARRIER
    y[threadIdx.x] = all[63 - threadIdx.x];
}
extern "C" __global__ void sum(const float* x, float* y) {
    float total = x[threadIdx.x];
    for (int apart = 16; apart; apart /= 2) total += __shfl_xor_sync(WHO, total, apart);
    if (threadIdx.x == 0) *y = total;
}
extern "C" __global__ void move(const float* x, float* y, long long from, long long to) { y[to] = x[from]; }
extern "C" __global__ void leave(float* y) {
    if (threadIdx.x == 3) return;
    __syncthreads();
    y[threadIdx.x] = 1;
}
"""


@pytest.fixture
def faulty(gpu):
    """Kernels, right or wrong by options, in the emulator."""
    if gpu != "standin" or not emulator.compiler():
        pytest.skip("the emulator needs Linux and a C++ compiler (g++, clang++)")
    mg.tensor(0.0, device="cuda")

    def get(name, barrier="__syncthreads();", who="0xffffffffu"):
        options = (f"-DBARRIER={barrier}", f"-DWHO={who}")
        return emulator.RawModule(FAULTY, options=options).get_function(name)

    return get


def test_the_emulator_supports_barriers(faulty):
    """And a missing barrier spoils what they read."""
    x = there(np.arange(64, dtype=np.float32))
    y = there(np.zeros(64, np.float32))
    faulty("reverse")((1,), (64,), (x, y))
    assert here(y).tolist() == list(range(63, -1, -1))
    faulty("sum")((1,), (32,), (x, y))
    assert here(y)[0] == sum(range(32))
    faulty("reverse", barrier=";")((1,), (64,), (x, y))
    assert np.isnan(here(y)).any()


def test_a_barrier_missing_before_reuse_is_found(device, gpu, monkeypatch):
    if gpu != "standin":
        pytest.skip("the emulator stands in for a GPU that is not there")
    name, arrays, settings = "layer_norm", *MANY["layer_norm"][0]
    right = launching.code("normalization")
    first = (
        "    __syncthreads();  // all threads have read the results of an earlier call from scratch\n    if"
    )
    assert right.count(first) == 1
    changed = [right.replace(first, "    if")]
    monkeypatch.setattr(launching, "code", lambda source: changed[0])
    value, _ = run_fused(name, arrays, settings)
    expected, _ = run(cpu, name, arrays, settings)
    assert not np.allclose(value, expected, rtol=1e-3)


def test_the_emulator_detects_deadlocks(faulty):
    x = there(np.zeros(64, np.float32))
    y = there(np.zeros(64, np.float32))
    with pytest.raises(RuntimeError, match="never come"):
        faulty("sum", who="(threadIdx.x < 16 ? 0xffffffffu : 0xffffu)")((1,), (32,), (x, y))
    with pytest.raises(RuntimeError, match="never come"):
        faulty("leave")((1,), (64,), (y,))


def test_the_emulator_finds_accesses_out_of_bounds(faulty):
    x, y = there(np.ones(8, np.float32)), there(np.zeros(8, np.float32))
    for place in (8, -1):
        faulty("move")((1,), (1,), (x, y, place, 3))
        assert np.isnan(here(y)[3])
        with pytest.raises(IndexError, match="wrote beyond the 32 bytes"):
            faulty("move")((1,), (1,), (x, y, 0, place))


def test_the_emulator_finds_arguments_of_the_wrong_type(faulty):
    x, y = there(np.ones(8, np.float32)), there(np.zeros(8, np.float64))
    for arguments in ((x, x, 0, 1.0), (x, x, 0, np.int32(1)), (x, y, 0, 0)):
        with pytest.raises(AssertionError, match="move, argument"):
            faulty("move")((1,), (1,), arguments)
    with pytest.raises(TypeError, match="4 parameters"):
        faulty("move")((1,), (1,), (x, x))
