"""Mistakes that a reading found, each with the smallest program that shows it."""

import functools
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minigrad as mg
from minigrad import GraphError, OptionError
from minigrad.core.registry import ops
from minigrad.nn import functional as F
from minigrad.nn.finite import first_nonfinite
from minigrad.ops import differentiable
from minitransformer import Transformer, TransformerConfig
from minitransformer.data.batching import BlockBatches
from minitransformer.errors import UserError


def leaf(*values):
    return mg.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize("allow_unused", [False, True])
def test_grad_through_a_freed_graph_says_that_it_was_freed(allow_unused):
    x = leaf(1.0, 2.0)
    y = x * x
    mg.autograd.grad(y.sum(), x)
    with pytest.raises(GraphError, match="first backward freed it"):
        mg.autograd.grad(y.sum(), x, allow_unused=allow_unused)


def test_flip_gives_memory_of_its_own():
    x = mg.tensor([1.0, 2.0, 3.0])
    y = x.flip(0)
    x[0] = 100.0
    assert y.tolist() == [3.0, 2.0, 1.0]


def test_clamp_without_a_limit_is_refused():
    with pytest.raises(OptionError, match="neither min nor max"):
        mg.tensor([1.0]).clamp()


def test_gradients_with_graphs_share_no_memory():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward(create_graph=True)
    assert x.grad is not y.grad
    mg.optim.clip_grad_norm_([x, y], 1.0)
    np.testing.assert_allclose(x.grad.numpy(), [0.5, 0.5], rtol=1e-5)


@pytest.fixture
def twice():
    @differentiable
    def the_same_twice(x, y, /):
        def gradients(g, needs):
            r = g * 2
            return r, r

        return 2 * x + 2 * y, gradients

    yield the_same_twice
    del ops["the_same_twice"]


def test_an_array_that_a_rule_gives_twice_is_not_added_into(twice):
    x, y = leaf(1.0), leaf(1.0)
    (twice(x, y) + 5 * x).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (7.0, 2.0)


@pytest.mark.parametrize("how", ["default", "partial"])
def test_arrays_kept_in_defaults_and_partials_have_versions_too(how):
    @differentiable
    def scaled(x, y, /):
        keep = (lambda g, y=y: g * y) if how == "default" else functools.partial(lambda y, g: g * y, y)
        return x * y, (keep, None)

    x, y = leaf(1.0), mg.tensor([2.0])
    z = scaled(x, y)
    y += 5.0
    with pytest.raises(GraphError, match="changed since"):
        z.backward()
    del ops[scaled.op.key]


def test_where_of_two_numbers_is_float32():
    assert mg.where(mg.tensor([True, False]), 1.0, 0.0).dtype == mg.float32


def test_gelu_of_a_0d_tensor_is_0d():
    x = mg.tensor(1.0, requires_grad=True)
    for form in ("none", "tanh"):
        y = mg.nn.functional.gelu(x, form)
        assert y.shape == ()
        y.backward()
        assert x.grad.shape == ()


def test_bits_of_integers_and_logic_of_booleans():
    a = mg.tensor([6, 5])
    assert (a & 3).tolist() == [2, 1]
    assert (a | 1).tolist() == [7, 5]
    assert (~a).tolist() == [-7, -6]
    b = mg.tensor([True, False])
    assert (~b).tolist() == [False, True]
    assert (b | ~b).tolist() == [True, True]


def test_a_handle_removes_its_own_hook_only():
    x, seen = leaf(1.0), []
    first = x.register_hook(lambda g: seen.append("first"))
    first.remove()
    x.register_hook(lambda g: seen.append("second"))
    first.remove()
    (x * 2).backward()
    assert seen == ["second"]


def test_large_seeds_draw_different_blocks():
    draw = lambda seed: BlockBatches(np.arange(1000), 4, 8, seed).batch(0)[0].tolist()
    assert draw(2**63) != draw(2**63 + 1)


def test_a_value_with_a_gradient_is_refused_where_it_would_lose_it():
    with pytest.raises(OptionError, match="takes one number"):
        mg.zeros(2).masked_fill(mg.tensor([True, False]), leaf(1.0))


@pytest.mark.parametrize("function", [lambda x: x.sum(0, axis=1), lambda x: mg.sum(x, dim=0, axis=1)])
def test_one_setting_under_two_names_is_refused(function):
    with pytest.raises((OptionError, TypeError)):
        function(mg.zeros(2, 3))


def test_gradcheck_knows_two_orders():
    with pytest.raises(OptionError, match="order must be 1 or 2"):
        mg.gradcheck(lambda x: x, mg.ones(1, dtype="float64", requires_grad=True), order=3)


def test_infinite_gradients_do_not_pass_closed_gates():
    x = leaf(-1.0, 1.0)
    x.relu().backward(mg.tensor([np.inf, np.inf]))
    assert x.grad.tolist() == [0.0, np.inf]


def test_infinite_logits_name_the_output_layer():
    model = Transformer(TransformerConfig(5, 4, 2, 8, 1, 1, dropout=0.0))

    def loss():
        states = model.decode(np.array([[2]]), model.encode(np.array([[4]])))
        return (model.logits(states) * np.inf).sum()

    with np.errstate(invalid="ignore"):
        assert first_nonfinite(model, loss) == ""  # outside of all modules: logits or loss


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([1, 2], [[2]], "batch of one"),
        ([[1.0, 2.0]], [[2]], r"got float64 \(1, 2\).\nPass what the tokenizer's encode returns"),
        ([[1, 2], [1]], [[2], [2]], "different lengths"),
        ([[0.5]], [[2]], "integers"),
    ],
)
def test_token_ids_of_a_wrong_kind_are_explained(source, target, message):
    model = Transformer(TransformerConfig(5, 4, 2, 8, 1, 1))
    with pytest.raises(UserError, match=message):
        model(source, target)


@pytest.mark.parametrize("options", [{"lr": -1}, {"lr": "0.1"}, {"betas": (1.5, 0.9)}, {"eps": -1e-8}])
def test_an_optimizer_refuses_rates_that_cannot_be(options):
    with pytest.raises(OptionError):
        mg.optim.Adam([leaf(1.0)], **options)


def test_a_diagonal_is_an_integer():
    with pytest.raises(mg.DtypeError, match="diagonal must be an integer"):
        mg.ones(2, 2).tril(2.5)


def test_a_seed_is_a_whole_number():
    with pytest.raises(OptionError, match="'a'"):
        mg.manual_seed("a")


def test_fewer_than_ten_pairs_are_refused(tmp_path, cli):
    (tmp_path / "few.tsv").write_text("".join(f"a{i}\tb{i}\n" for i in range(9)))
    code, _, err = cli("train", "phrasebook", "--data", tmp_path / "few.tsv", "--run-dir", tmp_path / "run")
    assert code == 2
    assert "at least 10" in err
    assert not (tmp_path / "run").exists()


def test_fewer_steps_than_are_done_are_refused(here, cli):
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume", "--steps", 2)
    before = (here / "mine" / "config.toml").read_bytes()
    code, _, err = cli(*command)
    assert code == 2
    assert "mine is at step 4, more than --steps 2" in err
    assert (here / "mine" / "config.toml").read_bytes() == before


def test_a_damaged_state_is_named(here, cli):
    (state,) = (here / "mine" / "checkpoints").glob("*4/state.json")
    state.write_text("{}")
    command = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume", "--steps", 6)
    code, _, err = cli(*command)
    assert code == 2
    assert "state.json does not match its checksum" in err


# ---------------------------------------------------------------- a tensor among other things


def test_a_tensor_is_equal_to_nothing_that_is_no_number():
    x = mg.tensor([1.0, 2.0])
    for thing in (None, "cpu", object(), {}):
        assert (x == thing) is False
        assert (thing == x) is False
        assert (x != thing) is True
    assert x in ["cpu", None, x]
    assert (x == [1.0, 3.0]).tolist() == [True, False]


def test_an_element_is_looked_for_in_all_axes():
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3 in x
    assert 5 not in x


def test_a_tensor_says_where_an_array_is_written():
    out = np.zeros(2)
    np.add(1.0, 2.0, out=out, where=mg.tensor([True, False]))
    np.testing.assert_array_equal(out, [3.0, 0.0])


def test_nothing_is_not_written_as_nan():
    x = mg.ones(2)
    with pytest.raises(mg.DtypeError, match="item assignment of None"):
        x[0] = None


def test_a_number_out_of_a_dtypes_range_is_a_matter_of_dtype():
    with pytest.raises(mg.DtypeError, match="300 out of bounds for uint8"):
        mg.ones(2, dtype="uint8").add_(300)


def test_a_view_that_runs_backward_is_not_lent_to_other_libraries():
    x = mg.from_numpy(np.array([1.0, 2.0])[::-1])
    with pytest.raises(mg.ShapeError, match="negative strides"):
        x.__dlpack__()
    np.testing.assert_array_equal(np.from_dlpack(x.clone()), [2.0, 1.0])


# ---------------------------------------------------------------- hooks


def test_a_gradient_retained_twice_counts_once_and_after_all_hooks():
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0]


def test_a_hook_does_not_change_a_gradients_dtype():
    x = mg.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: g.double())
    x.sum().backward()
    assert x.grad.dtype == mg.float32


def test_a_hook_that_would_never_be_called_is_refused():
    with pytest.raises(mg.GraphError, match="does not require one"):
        mg.ones(2).register_hook(print)
    with pytest.raises(mg.GraphError, match="does not require one"):
        mg.ones(2).retain_grad()


# ---------------------------------------------------------------- anomalies


def test_one_thread_watching_for_anomalies_does_not_disturb_another():
    def elsewhere():
        with np.errstate(all="ignore"):
            return mg.zeros(1).log().item()

    with mg.autograd.detect_anomaly(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result() == -np.inf


# ---------------------------------------------------------------- gradient checks


def test_a_gradient_that_is_not_linear_in_g_is_found():
    @differentiable
    def square_of_positive_upstream(x, /):
        return x * x, (lambda g: abs(g) * 2 * x,)

    x = mg.tensor(np.array([1.0, -2.0]), requires_grad=True)
    with pytest.raises(mg.GradcheckError, match="not linear in the upstream gradient"):
        mg.gradcheck(square_of_positive_upstream, x)


def test_beside_a_jump_not_any_slope_passes():
    @differentiable
    def floor_with_a_slope(x, /):
        return np.floor(x), (lambda g: g * 5.0,)

    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with pytest.raises(mg.GradcheckError, match="wrong only at a jump"):
        mg.gradcheck(floor_with_a_slope, x)
    assert mg.gradcheck(mg.floor, x).kinks[0].jump


def test_a_check_under_no_grad_finds_the_gradient():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    with mg.no_grad():
        assert mg.gradcheck(mg.exp, x).passed
        assert mg.gradcheck_sweep(mg.exp, x).kind == "right"


def test_a_check_leaves_a_modules_buffers_alone():
    norm = mg.nn.BatchNorm1d(2).double()
    before = [buffer.array.copy() for buffer in norm.buffers()]
    x = mg.tensor(np.arange(6.0).reshape(3, 2) ** 2)
    assert mg.gradcheck(lambda: norm(x), norm).passed
    for buffer, array in zip(norm.buffers(), before, strict=True):
        np.testing.assert_array_equal(buffer.array, array)


def test_what_cannot_be_checked_is_said():
    x = mg.tensor(np.array([1e-7, 1.0]), requires_grad=True)
    with pytest.raises(mg.OptionError, match="2 numbers, and 1 a step away"):
        mg.gradcheck(lambda x: x[x > 0], x)
    with pytest.raises(mg.DtypeError, match="returned float32, too coarse"):
        mg.gradcheck(lambda x: x.float(), x)
    with pytest.raises(mg.OptionError, match="no element"):
        mg.gradcheck_sweep(mg.exp, x, (0, (7,)))


def test_a_check_keeps_nothing_alive():
    x = mg.tensor(np.array([1.0]), requires_grad=True)
    seen = []

    def watched(x):
        seen.append(weakref.ref(x))
        return x.exp()

    gc.collect()
    gc.disable()
    try:
        mg.gradcheck(watched, x)
        assert seen[0]() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: mg.autograd.grad(x.sum(), 1.0), "inputs must be tensors, got float"),
        (lambda x: mg.autograd.grad(1.0, x), "outputs must be tensors, got float"),
        (lambda x: mg.autograd.grad([x * 1, x * 2], x, np.ones(2)), "2 outputs need"),
        (lambda x: mg.func.grad(lambda x: x.sum(), "a")(x), "argnums must be an integer or several"),
        (lambda x: mg.arange(float("nan")), "is not a range"),
        (lambda x: mg.randperm(2.5), "n must be an integer, got 2.5"),
        (lambda x: mg.randperm(-1), "non-negative integers"),
        (lambda x: mg.nn.Linear(-1, 3), r"non-negative integers, got \(3, -1\).\nPass sizes of 0 or more."),
    ],
)
def test_a_mistake_is_explained(call, what):
    with pytest.raises(mg.MinigradError, match=what):
        call(mg.ones(2, requires_grad=True))


def test_argnums_may_be_a_numpy_number():
    assert mg.func.grad(lambda x, y: x * y, np.int64(1))(2.0, 3.0).item() == 2.0


def test_operands_and_settings_may_be_given_by_pytorchs_names():
    x, y = mg.tensor([1.0, 2.0]), mg.tensor([3.0, 4.0])
    assert mg.add(input=x, other=y, alpha=2).tolist() == [7, 10]
    assert x.mul(other=y).tolist() == [3, 8]
    assert x.pow(exponent=2).tolist() == mg.pow(x, exponent=mg.tensor([2.0, 2.0])).tolist() == [1, 4]
    assert mg.where(condition=x > 1, input=x, other=y).tolist() == [3, 2]
    assert mg.addcmul(x, tensor1=x, tensor2=y).tolist() == [4, 10]
    assert mg.mm(input=x[None], mat2=y[:, None]).item() == 11
    assert mg.softmax(input=x, dim=0).shape == mg.lerp(input=x, end=y, weight=0.5).shape == (2,)
    assert mg.reshape(input=x, shape=(2, 1)).shape == mg.permute(input=x[None], dims=(1, 0)).shape == (2, 1)
    with pytest.raises(OptionError, match="under two names"):
        mg.add(input=x, x=x, other=y)


def test_distances_to_infinity_have_slopes():
    for loss in (F.smooth_l1_loss, F.huber_loss):
        x = leaf(-np.inf, -0.5, 1.0, np.inf)
        loss(x, mg.zeros(4), reduction="sum").backward()
        assert x.grad.tolist() == [-1, -0.5, 1, 1]


def test_repeating_once_gives_memory_of_its_own():
    x = mg.tensor([[1.0, 2.0]])
    for y in (x.repeat(1, 1), x.repeat(2, 1), x.tile((1, 1))):
        y[0] = 5.0
    assert x.tolist() == [[1, 2]]


def test_shared_elements_are_not_changed_in_place():
    with pytest.raises(mg.MinigradError, match="clone"):
        mg.tensor([1.0]).expand(3).add_(1)


def test_logarithms_of_sums_at_infinity():
    x, y = (mg.tensor(v) for v in np.meshgrid([-np.inf, 0.0, 1e30, np.inf, np.nan], [-np.inf, 2.0, np.inf]))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(mg.logaddexp(x, y).array, np.logaddexp(x.array, y.array))


@pytest.mark.parametrize("n", [-3, -2, 3, 4])
def test_small_powers_are_products_with_the_same_derivatives(n):
    x = leaf(0.5, -2.0, 3.0)
    (slopes,) = mg.autograd.grad((x**n).sum(), x, create_graph=True)
    (curvatures,) = mg.autograd.grad(slopes.sum(), x)
    np.testing.assert_allclose((x**n).array, x.array**n, rtol=1e-6)
    np.testing.assert_allclose(slopes.array, n * x.array ** (n - 1), rtol=1e-6)
    np.testing.assert_allclose(curvatures.array, n * (n - 1) * x.array ** (n - 2), rtol=1e-6)


def test_half_precision_does_not_overflow_on_the_way():
    x = mg.tensor(np.array([300.0, -300.0, 300.0, -300.0], np.float16), requires_grad=True)
    F.layer_norm(x, (4,)).sum().backward()
    assert F.layer_norm(x, (4,)).tolist() == F.rms_norm(x, (4,)).tolist() == [1, -1, 1, -1]
    assert (x.grad.dtype, x.std().dtype, x.norm().item()) == (mg.float16, mg.float16, 600)
    assert x.std().item() == 346.5
    assert np.isfinite(mg.zeros(70000, dtype="float16").softmax(0).array).all()


def test_whole_numbers_have_bits_and_divisors():
    x, y = mg.tensor([12, 18]), mg.tensor([8, 2])
    assert (mg.gcd(x, y).tolist(), mg.lcm(x, y).tolist()) == ([4, 2], [24, 18])
    assert ((x << 1).tolist(), (x >> 1).tolist(), (1 << y).tolist()) == ([24, 36], [6, 9], [256, 4])


def test_a_change_in_place_that_failed_is_none():
    x = mg.ones(3, requires_grad=True)
    b = mg.ones(3)
    y = x * b
    with pytest.raises(mg.ShapeError):
        b += mg.ones(2)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, np.ones(3))


def test_switches_of_recording_decorate_with_and_without_parentheses():
    x = mg.ones(2, requires_grad=True)
    for switch in (mg.no_grad, lambda f: mg.no_grad()(f), lambda f: mg.set_grad_enabled(False)(f)):
        assert not switch(lambda: x * 2)().requires_grad
        assert mg.is_grad_enabled()
    with mg.no_grad():
        assert mg.enable_grad(lambda: x * 2)().requires_grad
    assert mg.is_grad_enabled()


def test_a_missing_argument_is_named_as_one():
    with pytest.raises(
        TypeError, match=r"softmax.*missing.*'dim'[\s\S]*It takes \(x, dim, dtype=None\)"
    ) as raised:
        mg.softmax(mg.ones(2))
    assert "locals" not in str(raised.value)


def own_op(name, rule):
    """A user's op, made as a script would."""
    rule.__name__ = rule.__qualname__ = name
    return mg.ops.differentiable(rule)


def test_a_users_op_does_not_hide_the_librarys_of_that_name():
    x = mg.tensor([0.3, -0.5], dtype="float64", requires_grad=True)
    second = lambda: mg.func.hessian(lambda x: mg.nn.functional.gelu(x).sum())(x).array
    before, records, known = second(), dict(mg.ops.registry), dict(ops)
    try:
        alias = own_op("alias", lambda x, /: (x * 100, (lambda g: g * 100,)))
        assert alias(x).tolist() == [30.0, -50.0]
        np.testing.assert_array_equal(second(), before)
        assert mg.ops.registry["alias"] is records["alias"]
        assert mg.ops.registry[f"{__name__}.alias"].name == "alias"
    finally:
        mg.ops.registry.clear()
        mg.ops.registry.update(records)
        ops.clear()
        ops.update(known)


def test_mistakes_in_a_rule_are_named():
    a, b = (mg.ones(2, 3, requires_grad=True), mg.ones(3, 4, requires_grad=True))
    records, known = dict(mg.ops.registry), dict(ops)
    try:
        with pytest.raises(mg.OptionError, match="rule of bare must return a value and its gradients"):
            own_op("bare", lambda x, /: x * 2)(a)
        crossed = own_op("crossed", lambda x, y, /: (x @ y, (lambda g: g @ y, lambda g: x.T @ g)))
        with pytest.raises(mg.ShapeError, match=r"the gradient of crossed \(recorded at .*\) failed: matmul"):
            crossed(a, b).sum().backward()
        alone = own_op("alone", lambda x, /: (x * 2, lambda g: g * 2))
        with pytest.raises(mg.OptionError, match=r"(?s)the rule of alone .*one function of g.*\(g, needs\)"):
            alone(a)
    finally:
        mg.ops.registry.clear()
        mg.ops.registry.update(records)
        ops.clear()
        ops.update(known)


def test_a_setting_that_requires_a_gradient_is_refused_and_a_plain_one_is_its_number():
    x, beta = mg.ones(3, requires_grad=True), mg.tensor(2.0, requires_grad=True)
    with pytest.raises(mg.OptionError, match=r"softplus.*has no gradient for its setting beta"):
        mg.nn.functional.softplus(x, beta)
    expected = mg.nn.functional.softplus(x, 2.0)
    np.testing.assert_array_equal(mg.nn.functional.softplus(x, beta.detach()).array, expected.array)


def test_what_a_stranger_tried():
    with pytest.raises(mg.DtypeError, match="Sequential holds modules, got list"):
        mg.nn.Sequential([mg.nn.ReLU()])
    with pytest.raises(mg.DtypeError, match="where takes booleans, got float32"):
        mg.where(mg.ones(2), 1.0, 2.0)
    assert mg.where(True, mg.ones(2), 0.0).tolist() == [1.0, 1.0]
    with pytest.raises(mg.ShapeError, match=r"batch_norm of 4 channels .* parameters of shape \(8,\)"):
        mg.nn.BatchNorm2d(8)(mg.ones(2, 4, 3, 3))
    with pytest.raises(mg.OptionError, match="'average'"):
        mg.nn.MSELoss(reduction="average")
    with pytest.raises(mg.OptionError, match=r"takes parameters, got Linear"):
        mg.optim.AdamW(mg.nn.Linear(2, 2))
    with pytest.raises(mg.ShapeError, match=r"stack\(\[float32\[2\], float32\[3\]\]"):
        mg.stack([mg.ones(2), mg.ones(3)])
    report = mg.gradcheck(mg.exp, mg.ones(2, dtype="float64", requires_grad=True))
    assert repr(report) == str(report)
