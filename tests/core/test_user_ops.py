"""A user's own op has every right of a built-in one: what it says of itself holds everywhere."""

import contextlib
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import minigrad as mg
from minigrad import kernels, nn
from minigrad.core import kernels as core_kernels
from minigrad.core.namespace import namespace
from minigrad.core.registry import registry
from minigrad.nn import functional as F
from minigrad.ops import composite, derived, differentiable
from minigrad.ops.attention import scaled_dot_product_attention
from minigrad.ops.sample_calls import forms
from minigrad.ops.samplers import real, unary
from minitransformer.layers.attention import multi_head_attention
from tests.kernel_sets import needs_numba
from tests.leaves import message
from tests.slow.standin import cublas, emulator

pytestmark = pytest.mark.usefixtures("own_ops")


def rule_of(name, **about):
    """`x e**x` as an op of any name."""

    def rule(x, /):
        e = namespace(x).exp(x)
        return x * e, (lambda g: g * (e + x * e),)

    rule.__name__ = rule.__qualname__ = name
    return differentiable(rule, samples=unary(real), latex=r"g\,e^x\,(1 + x)", **about)


def composite_of(name, **about):
    def kernel(x):
        e = namespace(x).exp(x)
        return x * e, (lambda g: g * (e + x * e),)

    def definition(x, /):
        return x * x.exp()

    definition.__name__ = definition.__qualname__ = name
    return composite(definition, kernel=kernel, samples=unary(real), latex=r"g\,e^x\,(1 + x)", **about)


def derived_of(name, **about):
    def function(x):
        return x * x.exp()

    function.__name__ = function.__qualname__ = name
    return derived(function, samples=unary(real), latex=r"g\,e^x\,(1 + x)", **about)


KINDS = pytest.mark.parametrize("make", [rule_of, composite_of, derived_of])


# ---------------------------------------------------------------- autocast


@pytest.mark.parametrize("make", [rule_of, composite_of])
@pytest.mark.parametrize("name", ["matmul", "swell"])
def test_autocast_follows_the_setting_of_the_op_not_its_name(make, name):
    x, half = mg.ones(3), mg.ones(3, dtype="bfloat16")
    with mg.autocast(dtype="bfloat16"):
        assert (make(name)(x).dtype, make(name)(half).dtype) == (mg.float32, mg.bfloat16)
        assert make(name, autocast="lower")(x).dtype == mg.bfloat16
        assert make(name, autocast="float32")(half).dtype == mg.float32
    assert make(name, autocast="lower")(x).dtype == mg.float32


def test_autocast_casts_arguments_of_derived_functions():
    seen = []

    def look(x, name):
        seen.append(x.dtype)
        return x

    for autocast in (None, "lower", "float32"):
        call = derived(look, autocast=autocast)
        with mg.autocast(dtype="float16"):
            call(mg.ones(2, dtype="bfloat16"), "softmax")
    assert seen == [mg.bfloat16, mg.float16, mg.float32]


@KINDS
def test_invalid_autocast_settings_of_an_op_are_rejected(make):
    with pytest.raises(mg.OptionError, match=r'must be "lower", "float32" or None, got .half.'):
        make("swell", autocast="half")


def test_rules_get_bfloat16_only_with_exact_in_half():
    seen = []

    def rule(x, /):
        seen.append(str(x.dtype))
        return x, (lambda g: g,)

    half = mg.ones(2, dtype="bfloat16")
    for op in (differentiable(rule), differentiable(rule, exact_in_half=True)):
        assert op(half).dtype == half.dtype
    assert seen == ["float32", "bfloat16"]


# ---------------------------------------------------------------- drawing


@pytest.mark.parametrize("make", [rule_of, composite_of])
def test_drawings_show_sign_name_family_and_formula_of_user_ops(make):
    x = mg.randn(3, requires_grad=True)
    swell = make("swell", sign="xeˣ", family="activation", public_name="x_exp")
    graph = mg.graph.trace(swell(x).sum(), {"x": x})
    vertex = next(v for v in graph.vertices if v.name == "swell")
    assert (vertex.family, vertex.sign, vertex.public_name) == ("activation", "xeˣ", "x_exp")
    assert vertex.formulas == (("x", r"g\,e^x\,(1 + x)"),)
    assert "x_exp xeˣ" in graph.to_svg()
    assert mg.graph.colours.FAMILIES["activation"].fill in graph.to_svg()
    assert "math xmlns" in graph.to_html()


def test_op_family_defaults_to_other(monkeypatch):
    x = mg.ones(2, requires_grad=True)
    family = lambda: next(v.family for v in mg.graph.trace(rule_of("swell")(x)).vertices if v.name == "swell")
    assert family() == "other"
    monkeypatch.setitem(globals(), "__family__", "loss")
    assert family() == "loss"


# ---------------------------------------------------------------- advice


@pytest.mark.parametrize("make", [rule_of, composite_of])
def test_advice_of_an_op_is_shown_when_it_produces_inf(make):
    x = mg.tensor([1.0, 1e4], requires_grad=True)
    swell = make("swell", advice="Swell less.")
    with np.errstate(over="ignore"):
        assert mg.graph.why_nan(swell(x)).reason.endswith("Swell less.")
    with (
        mg.autograd.detect_anomaly(),
        pytest.raises(mg.NonFiniteError, match=r"swell produced inf(.|\n)*Swell less\."),
    ):
        swell(x)


def test_gradient_advice_is_shown_for_infinite_derivatives():
    @differentiable(gradient_advice="Stay away from 0.")
    def root(x, /):
        y = namespace(x).sqrt(x)
        return y, (lambda g: g / (2 * y),)

    x = mg.tensor([0.0, 1.0], requires_grad=True)
    assert mg.graph.why_nan(root(x).sum()).reason.endswith("Stay away from 0.")
    with mg.autograd.detect_anomaly(), pytest.raises(mg.NonFiniteError, match=r"Stay away from 0\."):
        root(x).sum().backward()


@pytest.mark.parametrize(
    ("part", "advice"), [("sinh", "Swell less."), ("exp", "Subtract the largest before exp")]
)
def test_parts_without_advice_show_the_advice_of_the_composite(part, advice):
    @composite(kernel=lambda x: (x, None), advice="Swell less.")
    def swell(x, /):
        return getattr(x, part)()

    x = mg.tensor([1.0, 1e4], requires_grad=True)
    with mg.fused(False), np.errstate(over="ignore"):
        reason = mg.graph.why_nan(swell(x)).reason
    assert f"{part} produced inf" in reason
    assert advice in reason


# ---------------------------------------------------------------- checks


@KINDS
@pytest.mark.parametrize("order", [1, 2])
def test_gradient_check_uses_the_samples_of_a_user_op(make, order):
    from minigrad.checks.every_op import check_op

    make("swell")
    for fuse in forms(registry["swell"]):
        row = check_op(registry["swell"], (order,), 1e-6, 0, fuse)
        assert row.passed, row.failures
        assert row.samples == 4


def test_a_composite_runs_its_kernel_and_differentiates_twice():
    called = []

    def kernel(x):
        called.append(len(x))
        return x**3, (lambda g: g * 3 * x**2,)

    @composite(kernel=kernel)
    def softmax(x, /):  # the library's kernel of that name is not meant
        return x * x * x

    x = mg.tensor([2.0, 3.0], requires_grad=True)
    assert softmax(x).tolist() == [8.0, 27.0]
    y = softmax(x)
    (g,) = mg.autograd.grad(y.sum(), [x], create_graph=True)
    assert mg.autograd.grad(g.sum(), [x])[0].tolist() == [12.0, 18.0]
    assert called == [2, 2]
    with mg.fused(False):
        assert softmax(x).tolist() == [8.0, 27.0]
    assert called == [2, 2]


def test_a_composite_without_a_kernel_runs_its_definition():
    @composite
    def swell(x, /):
        return x * x.exp()

    x = mg.tensor([0.5, -1.0], requires_grad=True)
    y = swell(x)
    assert y.node.op is swell.op  # one node, as with a kernel
    np.testing.assert_allclose(y.numpy(), [0.5 * np.exp(0.5), -np.exp(-1.0)], rtol=1e-6)
    (g,) = mg.autograd.grad(y.sum(), [x], create_graph=True)
    np.testing.assert_allclose(g.numpy(), [1.5 * np.exp(0.5), 0], rtol=1e-6)
    assert swell(x.to("bfloat16")).dtype == mg.bfloat16


@pytest.fixture
def own_kernels():
    """Kernels that a test registers leave with it."""
    records = [mg.softmax.op, multi_head_attention.op, scaled_dot_product_attention.op]
    before = [{name: list(functions) for name, functions in record.kernels.items()} for record in records]
    yield
    for record, kernels_before in zip(records, before, strict=True):
        record.kernels.clear()
        record.kernels.update(kernels_before)
        record.in_order.clear()


@pytest.mark.parametrize("which", ["numpy", pytest.param("numba", marks=needs_numba)])
def test_user_kernels_run_for_built_in_ops(which, own_kernels):
    called = []

    @kernels.kernel(mg.softmax, which)
    def softmax(x, dim, dtype=None):
        called.append(x.shape)
        return (np.full_like(x, 0.25), (lambda g: 3 * g,)) if x.shape[-1] == 4 else None

    x = mg.ones(2, 4, requires_grad=True)
    with kernels.use({"numpy": "numpy", "numba": "jit"}[which]):
        y = F.softmax(x, -1)
        assert y.tolist() == [[0.25] * 4] * 2
        assert mg.autograd.grad(y.sum(), [x])[0].tolist() == [[3.0] * 4] * 2
        assert F.softmax(mg.zeros(2), -1).tolist() == [0.5, 0.5]  # what it does not take is the library's
        with mg.fused(False):
            assert F.softmax(x, -1).tolist() == [[0.25] * 4] * 2
    assert called == [(2, 4), (2,)]
    if which == "numba":
        with kernels.use("numpy"):
            F.softmax(x, -1)
        assert called == [(2, 4), (2,)]  # this call does not fall back to it


def test_kernels_register_on_user_ops():
    @differentiable
    def double(x, /):
        return x + x, (lambda g: g + g,)

    x = mg.tensor([-1.0, 2.0], requires_grad=True)
    with kernels.use("numpy"):
        assert double(x).tolist() == [-2.0, 4.0]
        kernels.kernel(double, "numpy")(lambda x: (x * 7, (lambda g: g * 7,)))
        y = double(x)
        assert y.tolist() == [-7.0, 14.0]
        assert mg.autograd.grad(y.sum(), [x])[0].tolist() == [7.0, 7.0]
        with mg.fused(False):
            assert double(x).tolist() == [-2.0, 4.0]


def test_multi_head_attention_runs_user_kernels(own_kernels):
    called = []

    @kernels.kernel(scaled_dot_product_attention, "numpy")
    def attention(q, k, v, mask, is_causal, scale, dropout_p, key):
        called.append(q.shape)
        return v * 1, lambda g, needs: (None, None, g * 1, None)

    x = mg.randn(1, 3, 12, requires_grad=True)
    with kernels.use("numpy"):
        y = multi_head_attention(x, None, None, 2)
        np.testing.assert_array_equal(y.numpy(), x.numpy()[..., 8:])
        y.sum().backward()
    assert called == [(1, 2, 3, 2)]
    np.testing.assert_array_equal(x.grad.numpy(), np.repeat([[[0.0, 0.0, 1.0]]], 4, -1).repeat(3, 1))


def test_composites_reject_closures_that_require_grad():
    weight = mg.tensor([2.0], requires_grad=True)

    @composite
    def weighted(x, /):
        return x * weight

    with pytest.raises(mg.OptionError, match="is not an argument"):
        weighted(mg.tensor([3.0], requires_grad=True))
    weight.requires_grad_(False)
    assert weighted(mg.tensor([3.0])).item() == 6


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (lambda x: x * 2, "before a `/`"),
        (lambda x, /: None, "must return a tensor, or a tuple of tensors, got NoneType"),
        (lambda x, /: x.numpy(), "got ndarray"),
    ],
)
def test_invalid_composite_definitions_are_rejected(definition, said):
    with pytest.raises(mg.OptionError, match=said):
        composite(definition)(mg.ones(2))


@pytest.mark.parametrize("make", [differentiable, composite])
def test_results_of_user_ops_do_not_alias_their_inputs(make):
    def same(x, /):
        return (x, (lambda g: g,)) if make is differentiable else x.reshape(-1)

    x = mg.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1
    z = h * h
    make(same)(h).detach().mul_(10)
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])


def test_composites_may_return_named_tuples():
    values, places = composite(lambda x, /: x.sort())(mg.tensor([2.0, 1.0]))
    assert (values.tolist(), places.tolist()) == ([1, 2], [1, 0])


KEPT = np.array([3.0, 4.0], np.float32)


@pytest.mark.parametrize("one_for_all", [False, True])
@pytest.mark.parametrize(
    "gradient",
    [lambda g: as_strided(g), lambda g: np.broadcast_to(g + 0, g.shape), lambda g: KEPT],
    ids=["view", "read-only", "kept"],
)
def test_arrays_that_a_rule_returns_are_not_accumulated_into(gradient, one_for_all):
    gradients = (lambda g, needs: (gradient(g),)) if one_for_all else (gradient,)
    same = differentiable(lambda x, /: (x * 1.0, gradients))
    x, w = (mg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    for _ in range(2):
        a = x * 7
        ((same(x) + w) * mg.tensor([3.0, 4.0]) + a).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [6, 8])
    np.testing.assert_array_equal(x.grad.numpy(), [20, 22])
    np.testing.assert_array_equal(KEPT, [3, 4])


class Kept:
    """A gradient function that is an object, or a method of one."""

    def __init__(self, x):
        self.x = x

    def __call__(self, g):
        return g * 2 * self.x


@pytest.mark.parametrize("function", [Kept, lambda x: Kept(x).__call__], ids=["object", "method"])
def test_changing_an_input_saved_by_a_callable_object_raises(function):
    square = differentiable(lambda x, /: (x * x, (function(x),)))
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1
    y = square(h)
    with mg.no_grad():
        h *= 10
    with pytest.raises(mg.GraphError, match="needs its input"):
        y.sum().backward()


def test_ops_run_their_definitions_when_no_kernels_are_active(monkeypatch):
    monkeypatch.setattr(core_kernels, "defaults", {})
    monkeypatch.setattr(kernels.active, "cpu", None)
    x = mg.randn(2, 5, requires_grad=True)
    y = F.layer_norm(F.gelu(F.linear(x, mg.ones(3, 5))).relu(), (3,)).softmax(-1)
    y[0, 0].backward()
    assert kernels.kernels(x.array) is None
    assert np.isfinite(x.grad.numpy()).all()


@needs_numba
@pytest.mark.slow
def test_numba_is_imported_lazily():
    program = """
import sys
import minigrad as mg
from minigrad.kernels import kernel
x = mg.ones(2)
kernel(mg.softmax, "numba")(lambda x, dim, dtype=None: None)
assert "numba" not in sys.modules
(x + x).sum()
assert "numba" not in sys.modules
x.softmax(-1)
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# ---------------------------------------------------------------- capture


@pytest.fixture
def device(gpu):
    """A GPU, or the stand-in for one, with our kernels and cuBLAS."""
    with contextlib.ExitStack() as stack:
        if gpu == "standin":
            if not emulator.compiler():
                pytest.skip("there is neither a GPU nor a C++ compiler (g++, clang++) on this machine")
            stack.enter_context(cublas.installed())
        elif not find_spec("nvmath"):
            pytest.skip("products can be captured with nvmath-python only")
        mg.tensor(0.0, device="cuda")
        stack.enter_context(kernels.use("cuda"))
        yield "cuda"


@KINDS
def test_captured_steps_replay_user_ops(make, device):
    swell = make("swell")

    def run(captured):
        w = mg.tensor([0.5, -0.25, 1.0], device=device, requires_grad=True)

        def step(x):
            loss = (swell(w) * x).sum()
            loss.backward()
            return loss

        step = mg.capture(step, "cuda") if captured else step
        losses = []
        for i in range(4):
            w.grad = None
            x = mg.tensor(np.full(3, 0.1 * i, np.float32), device="cpu" if captured else device)
            losses.append(step(x).item())
        return losses, w.grad.tolist()

    assert run(captured=True) == run(captured=False)


def test_registering_a_kernel_on_a_non_op_raises():
    with pytest.raises(mg.OptionError, match=r"silu is not an op, so it takes no kernels.\nPass an op"):
        kernels.kernel(mg.silu, "numpy")
    with pytest.raises(mg.OptionError, match=r"no set of kernels 'fortran'.\nPass one of 'numpy'"):
        kernels.kernel(mg.softmax, "fortran")


def test_user_ops_do_not_hide_built_in_ops_of_the_same_name():
    x = mg.tensor([0.3, -0.5], dtype="float64", requires_grad=True)
    second = lambda: mg.func.hessian(lambda x: mg.nn.functional.gelu(x).sum())(x).array
    before = second()
    ours = registry["alias"]

    @differentiable
    def alias(x, /):
        return x * 100, (lambda g: g * 100,)

    assert alias(x).tolist() == [30.0, -50.0]
    np.testing.assert_array_equal(second(), before)
    assert registry["alias"] is ours
    assert registry[f"{__name__}.alias"].name == "alias"


def test_an_error_within_a_gradient_names_its_op():
    @differentiable
    def crossed(x, y, /):
        return x @ y, (lambda g: g @ y, lambda g: x.T @ g)

    product = crossed(mg.ones(2, 3, requires_grad=True), mg.ones(3, 4, requires_grad=True))
    with pytest.raises(mg.ShapeError, match=r"the gradient of crossed \(recorded at .*\) failed: matmul"):
        product.sum().backward()


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "relu", "sigmoid", "exp", "matmul", "logsumexp"])
def test_help_shows_the_derivative_and_the_definition(name):
    function = getattr(mg, name)
    assert re.search(r"d/d|gradient|derivative|d[A-Z] =", inspect.getdoc(function))
    assert f"def {name}(" in inspect.getsource(function)
    assert "dtype" in inspect.signature(function).parameters or "softmax" not in name


def test_errors_name_an_overriding_method_with_a_bad_signature():
    class Layer(nn.Linear):
        def parameters(self):
            return list(super().parameters())

    said = message(lambda: Layer(2, 3))
    assert "Layer.parameters() got an unexpected keyword argument 'recurse'" in said
