"""Every op on the samples of its own record: against finite differences, to second order; against float64;
and against what the engine relies on."""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.backward import Node, producer, tensor_of
from minigrad.core.op import Op, info_of
from minigrad.core.registry import registry
from minigrad.ops import METHODS, quantized, recurrent
from minigrad.ops.sample_calls import as_function, floating, forms, samples_of
from minigrad.ops.samplers import Sample
from minitransformer.layers import attention, relative_positions

# ops that only rules call, for their gradients: op -> whose
WITHIN_RULES = {
    "gamma_derivative": "lgamma", "convolution_input": "convolution",
    "convolution_weight": "convolution", "alias": "composites", "logistic": "sigmoid",
    "erfcx_derivative": "erfcx", "strided": "views of views", "sum_to": "broadcast_to",
}  # fmt: skip

OURS = {
    name: r
    for name, r in sorted(registry.items())
    if r.source.__module__.startswith(("minigrad.", "minitransformer."))
}
DIFFERENTIABLE = {
    name: record
    for name, record in OURS.items()
    if any(as_function(record, sample)[1] for sample in samples_of(record))
}
RULES = {name: record for name, record in DIFFERENTIABLE.items() if isinstance(record, Op)}
COMPOSITES = {name: record for name, record in RULES.items() if record.definition}
FORMS = [
    pytest.param(record, fused, id=f"{name}{'' if fused else '-readable'}")
    for name, record in DIFFERENTIABLE.items()
    for fused in forms(record)
]


def differentiable_samples(record):
    return [sample for sample in samples_of(record) if as_function(record, sample)[1]]


def is_of_more(record):
    """Whether the op is one of `more`, whose sweep is a slow one."""
    return record.source.__module__.startswith("minigrad.more.")


def outputs(function, inputs):
    """All floating results of a call."""
    return floating(function(*inputs))


def weighted(outs):
    draw = np.random.default_rng(1)
    total = 0.0
    for out in outs:
        weights = np.asarray(draw.uniform(0.5, 1.5, out.shape)).astype(np.float32)
        total = total + (out * mg.tensor(weights).to(out.dtype)).sum()
    return total


def gradients_of(record, sample, dtype="float64", create_graph=False):
    """The values of a sample's call and the gradients of its inputs, as arrays."""
    function, inputs = as_function(record, in_dtype(sample, dtype), dtype)
    outs = outputs(function, inputs)
    if not any(out.requires_grad for out in outs):
        return [out.array for out in outs], [None] * len(inputs)
    found = mg.autograd.grad(weighted(outs), inputs, create_graph=create_graph, allow_unused=True)
    return [out.array for out in outs], [None if g is None else g.array for g in found]


def in_dtype(sample, dtype):
    """The sample with its constants in another dtype; `as_function` sees to the inputs."""
    cast = lambda x: x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x
    return Sample(sample.args, {name: cast(x) for name, x in sample.kwargs.items()})


def assert_same(ours, theirs, rtol, atol):
    for a, b in zip(ours, theirs, strict=True):
        if a is not None or b is not None:
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


# ---------------------------------------------------------------- samples and names


def test_every_op_has_samples():
    assert not [name for name, record in OURS.items() if not samples_of(record)]


def test_samples_depend_on_the_seed_alone():
    for record in OURS.values():
        for one, same in zip(samples_of(record, 3), samples_of(record, 3), strict=True):
            for a, b in zip(one.args, same.args, strict=True):
                if isinstance(a, np.ndarray):
                    np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_every_op_can_be_reached_by_a_public_name():
    from tools.reference import ops_in

    public = [
        *METHODS.values(),
        *vars(mg).values(),
        *vars(mg.linalg).values(),
        *vars(mg.special).values(),
        *vars(mg.nn.functional).values(),
        attention.multi_head_attention,
        quantized.quantized_linear,
        relative_positions.rotary,
        *vars(recurrent).values(),
    ]
    found = set()
    seen = set()
    stack = [f for f in public if inspect.isfunction(f)]
    while stack:
        function = stack.pop()
        record = info_of(function)
        if record is not None:
            found.add(record.name)
        function = inspect.unwrap(function) if record is None else record.source
        if function not in seen:
            seen.add(function)
            stack += [registry[name].call for name in ops_in(function)]
    assert found | WITHIN_RULES.keys() >= OURS.keys()


# ---------------------------------------------------------------- finite differences


SECOND_ORDER = ("softmax", "layer_norm", "cross_entropy", "scaled_dot_product_attention", "gelu", "linear")


def check_gradients(record, fused, order):
    """Compare the gradients at each sample with finite differences."""
    from minigrad.checks.every_op import ATOL, RTOL

    for sample in differentiable_samples(record):
        function, inputs = as_function(record, sample)
        with mg.fused(fused):
            if not outputs(function, inputs):
                continue  # integers or booleans
            call = lambda *xs, function=function: outputs(function, xs)
            report = mg.gradcheck(call, inputs, order=order, atol=ATOL, rtol=RTOL)
        assert report.elements == sum(x.numel() for x in inputs)
        assert not [kink for kink in report.kinks if not kink.jump or order == 1], "a sample lies on a kink"


def in_each_order(forms, quick):
    """Each form in both orders, if it is quick or not: the ops of `more` and second derivatives are in
    `tests/slow/sweeps`, and so are PyTorch's for both."""
    return [
        pytest.param(record, fused, order, id=f"{form.id}-{order}")
        for form in forms
        for record, fused in [form.values]
        for order in (1, 2)
        if quick == (not is_of_more(record) and (order == 1 or record.name in SECOND_ORDER))
    ]


@pytest.mark.parametrize(("record", "fused", "order"), in_each_order(FORMS, quick=True))
def test_the_gradient_agrees_with_finite_differences(record, fused, order):
    check_gradients(record, fused, order)


def test_non_float_results_do_not_require_grad():
    for record in OURS.values():
        for sample in samples_of(record):
            function, inputs = as_function(record, sample)
            results = function(*inputs)
            for out in results if isinstance(results, tuple | list) else [results]:
                if isinstance(out, mg.Tensor) and not out.is_floating_point():
                    assert not out.requires_grad, record.name
                    assert out.is_leaf, record.name


# ---------------------------------------------------------------- float32 beside float64


# formulas, PyTorch's too, whose terms nearly cancel where the samples lie: the sums of their absolute terms


def tanhshrink_terms(x):
    """Of x - tanh(x)."""
    return [np.abs(x) + np.abs(np.tanh(x))]


def cosine_gradient_terms(x, y, dim=1):
    """Of w (y / |y| - cos x / |x|) / |x|, for each; the weights w are at most 1.5."""
    length = lambda v: np.sqrt((v * v).sum(dim, keepdims=True))
    a, b = np.broadcast_arrays(x, y)
    cosine = np.abs((a * b).sum(dim, keepdims=True)) / (length(a) * length(b))
    terms = lambda v, u: 1.5 * (np.abs(u) / length(u) + cosine * np.abs(v) / length(v)) / length(v)
    whole = [terms(a, b), terms(b, a)]
    return [t.sum(tuple(range(t.ndim - v.ndim))) for t, v in zip(whole, (x, y), strict=True)]


TERMS = {("tanhshrink", "value"): tanhshrink_terms, ("cosine_similarity", "gradient"): cosine_gradient_terms}


def gradient_tensors(function, inputs):
    """The gradients of the weighted outputs, to be differentiated again."""
    total = weighted(outputs(function, inputs))
    if not (isinstance(total, mg.Tensor) and total.requires_grad):
        return []
    found = mg.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
    return [g for g in found if g is not None]


def jacobian_bound(evaluate, function, inputs):
    """For each output element |value| + sum_i |d value / d x_i| |x_i|: what a rounding scales with."""
    outs = evaluate(function, inputs)
    bounds = []
    for out in outs:
        bound = np.array(np.abs(out.array))
        for index in np.ndindex(out.shape) if out.requires_grad else ():
            rows = mg.autograd.grad(out[index], inputs, retain_graph=True, allow_unused=True)
            bound[index] += sum(
                np.sum(np.abs(row.array * x.array))
                for row, x in zip(rows, inputs, strict=True)
                if row is not None
            )
        bounds.append(bound)
    return [out.array for out in outs], bounds


def rounded(sample):
    """The sample in numbers that float32 has."""
    cast = lambda x: (
        [cast(item) for item in x] if isinstance(x, list)
        else x.astype(np.float32).astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float64
        else x
    )  # fmt: skip
    return Sample(tuple(map(cast, sample.args)), {name: cast(x) for name, x in sample.kwargs.items()})


@pytest.mark.parametrize(("record", "fused"), [form for form in FORMS if not is_of_more(form.values[0])])
@pytest.mark.parametrize("what", ["value", "gradient"])
def test_float32_agrees_with_float64_up_to_rounding(record, fused, what):
    for sample in differentiable_samples(record):
        check_roundings(record, rounded(sample), fused, what)


def check_roundings(record, sample, fused, what):
    evaluate = outputs if what == "value" else gradient_tensors
    values, bounds = jacobian_bound(evaluate, *as_function(record, sample))
    if (record.name, what) in TERMS:
        bounds = TERMS[record.name, what](*sample.args, **sample.kwargs)
    function, inputs = as_function(record, in_dtype(sample, "float32"), "float32")
    with mg.fused(fused):
        found = evaluate(function, inputs)
    for ours, exact, bound in zip(found, values, bounds, strict=True):
        if ours.dtype == np.float32:
            finite = np.isfinite(exact)
            np.testing.assert_array_equal(ours.array[~finite], exact[~finite])
            off = np.abs(ours.array[finite] - exact[finite]) / np.finfo(np.float32).eps
            assert (off <= 8 * bound[finite]).all(), f"{np.max(off / bound[finite]):.1f} roundings"


# ---------------------------------------------------------------- what the engine relies on


def memory_of(function):
    """The arrays in a gradient function's closure."""
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        content = cell.cell_contents
        if isinstance(content, np.ndarray):
            found.append(content)
        elif callable(content) and hasattr(content, "__closure__"):
            found.extend(memory_of(content))
        elif isinstance(content, tuple | list):
            found.extend(item for item in content if isinstance(item, np.ndarray))
    return found


def pulled(gradients, needs, g):
    """What the gradient functions of a rule return for `g`."""
    if isinstance(gradients, tuple):
        return [f(g) if f and needed else None for f, needed in zip(gradients, needs, strict=True)]
    return list(gradients(g, needs))


def as_rule_call(record, sample):
    """What the engine calls the op's rule with: arrays, settings, needs; None where nothing is recorded."""
    function, inputs = as_function(record, sample._replace(symmetric=False))
    results = function(*inputs)
    for out in floating(results):
        node = producer(out.node)
        if isinstance(node, Node) and node.op is record:
            arrays = [getattr(tensor_of(edge), "array", edge) for edge in node.edges]
            return arrays, node.settings, node.needs
    return None


def check_gradient_memory(record, sample):
    """Gradient functions return new arrays or their argument, and change neither."""
    call = as_rule_call(record, sample)
    if call is None:
        return  # records nothing
    arrays, settings, needs = call
    value, gradients = record.run(arrays, settings)
    several = isinstance(value, tuple)
    gs = [np.random.default_rng(2).normal(size=np.shape(v)) for v in (value if several else [value])]
    kept = [
        a for f in (gradients if isinstance(gradients, tuple) else [gradients]) if f for a in memory_of(f)
    ]
    before = [np.copy(a) for a in (*gs, *kept)]

    found = pulled(gradients, needs, gs if several else gs[0])
    again = pulled(gradients, needs, gs if several else gs[0])

    for a, b in zip((*gs, *kept), before, strict=True):
        np.testing.assert_array_equal(a, b, err_msg="changed in place")
    assert_same(found, again, rtol=0, atol=0)
    own = [r for r in found if r is not None and not any(np.shares_memory(r, g) for g in gs)]
    theirs = [a for a in (*arrays, *kept) if isinstance(a, np.ndarray) and not any(a is g for g in gs)]
    for i, r in enumerate(own):
        assert not any(np.shares_memory(r, a) for a in theirs), "shares memory with what backward keeps"
        assert not any(np.shares_memory(r, other) for other in own[:i]), "two gradients share memory"
    if record.definition:  # the engine relies on it
        given = [id(r) for r in found if r is not None]
        assert len(set(given)) == len(given), "a kernel gave one array to two inputs"


def check_needed_gradients(record, sample):
    """Each input's gradient is the same if it is the only one needed, and no other is computed."""
    if record.name == "mirrored":  # its gradient is one by convention
        return
    full = gradients_of(record, sample)[1]
    for place in range(len(full)):
        function, inputs = as_function(record, sample)
        for j, x in enumerate(inputs):
            x.requires_grad_(j == place)
        outs = [out for out in outputs(function, inputs) if out.requires_grad]
        if outs:
            weighted(outputs(function, inputs)).backward()
        found = inputs[place].grad
        if full[place] is None or found is None:
            assert not any(np.any(g) for g in (full[place], found and found.array) if g is not None)
        else:
            np.testing.assert_allclose(found.array, full[place], rtol=1e-13, atol=1e-15)
        assert all(x.grad is None for j, x in enumerate(inputs) if j != place)


def check_float32(record, sample):
    """float32 stays float32."""
    if sample.kwargs.get("dtype") is None and record.name not in ("astype", "float_power"):
        outs, gradients = gradients_of(record, sample, dtype="float32")
        assert {a.dtype for a in (*outs, *gradients) if a is not None} <= {np.dtype("float32")}


def check_half_precision(record, sample):
    """Values and gradients in bfloat16: those of float32 on the rounded inputs, rounded once."""
    if record.name == "astype" or sample.kwargs.get("dtype") is not None:
        return
    half = mg.bfloat16
    function, inputs = as_function(record, in_dtype(sample, half), half)
    single, wide = as_function(record, in_dtype(in_dtype(sample, half), "float32"), half)
    wide = [mg.tensor(x.numpy().astype(np.float32), requires_grad=True) for x in inputs]
    outs, expected = outputs(function, inputs), outputs(single, wide)
    assert {out.dtype for out in outs} <= {half}
    for out, other in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out.numpy(), other.numpy().astype(half))
    if not any(out.requires_grad for out in outs):
        return
    gs = [np.random.default_rng(1).uniform(0.5, 1.5, out.shape).astype(half) for out in outs]
    found = mg.autograd.grad(outs, inputs, [mg.tensor(g) for g in gs], allow_unused=True)
    theirs = mg.autograd.grad(
        expected, wide, [mg.tensor(g.astype(np.float32)) for g in gs], allow_unused=True
    )
    for ours, other in zip(found, theirs, strict=True):
        if ours is not None:
            assert ours.dtype == half
            g = other.numpy()
            close = 2**-7 * np.abs(g).max(initial=1)  # sums over broadcast axes are of rounded terms
            np.testing.assert_allclose(ours.numpy().astype(np.float32), g, rtol=2**-7, atol=close)


def check_kernel(record, sample):
    """A kernel agrees with its definition."""
    fast = gradients_of(record, sample)
    with mg.fused(False):
        slow = gradients_of(record, sample)
    for ours, theirs in zip(fast, slow, strict=True):
        assert_same(ours, theirs, rtol=1e-12, atol=1e-13)


def check_replay(record, sample):
    """With create_graph the gradient is the same."""
    raw = gradients_of(record, sample)[1]
    replayed = gradients_of(record, sample, create_graph=True)[1]
    assert_same(raw, replayed, rtol=1e-12, atol=1e-14)


CHECKS = {  # with the ops that they are for
    check_gradient_memory: RULES, check_half_precision: RULES, check_kernel: COMPOSITES,
    check_needed_gradients: DIFFERENTIABLE, check_float32: DIFFERENTIABLE, check_replay: DIFFERENTIABLE,
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "record"),
    [
        pytest.param(check, record, id=f"{check.__name__}-{name}")
        for check, records in CHECKS.items()
        for name, record in records.items()
        if not is_of_more(record)
    ],
)
def test_every_op_passes_every_check(check, record):
    for sample in differentiable_samples(record):
        check(record, sample)
