"""Mixed precision: what autocast computes in which dtype, the scaler, and training by them."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim
from minigrad.core.errors import DtypeError, NonFiniteError, OptionError, StateError
from minigrad.core.registry import registry
from minigrad.core.trees import leaves, map_leaves
from minigrad.nn import functional as F
from minitransformer import GPT, GPTConfig
from tests.leaves import for_each

# OpenBLAS raises it at random for small products
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")

HALVES = ["bfloat16", "float16"]


@pytest.mark.parametrize("half", HALVES)
def test_autocast_runs_products_in_half_and_softmax_in_float32(half):
    x, w = mg.randn(3, 4), mg.randn(5, 4, requires_grad=True)
    with mg.autocast(dtype=half):
        product = F.linear(x, w)
        assert product.dtype == (x @ x.mT).dtype == half
        for takes_what_comes in (F.relu, F.gelu, lambda x: F.layer_norm(x, 5), lambda x: F.rms_norm(x, 5)):
            assert takes_what_comes(product).dtype == half
            assert takes_what_comes(product.float()).dtype == mg.float32
        assert F.softmax(product, -1).dtype == product.sum().dtype == mg.float32
        loss = F.cross_entropy(product, mg.tensor([0, 1, 2]))
        assert loss.dtype == mg.float32
    assert F.linear(x, w).dtype == mg.float32
    assert F.cross_entropy(product.detach(), mg.tensor([0, 1, 2])).dtype == half
    loss.backward()
    assert w.grad.dtype == mg.float32


def test_ops_declare_their_autocast_behavior():
    modes = {name: op.autocast for name, op in registry.items() if op.autocast}
    assert modes["matmul"] == modes["scaled_dot_product_attention"] == modes["addmm"] == "lower"
    assert modes["softmax"] == modes["exp"] == modes["norm"] == "float32"
    assert "relu" not in modes


def test_autocast_losses_are_float32_and_products_bfloat16():
    x, y = mg.rand(3, 4).to("bfloat16"), mg.rand(3, 4).to("bfloat16")
    with mg.autocast(dtype="bfloat16"):
        for loss in (F.mse_loss, F.l1_loss, F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
            single = loss(x.float(), y.float(), reduction="none")
            assert single.dtype == mg.float32
            np.testing.assert_array_equal(loss(x, target=y, reduction="none").numpy(), single.numpy())
        a = mg.ones(2, 2, dtype="float16")
        assert (a @ a).dtype == mg.bfloat16
        assert mg.addmm(mg.ones(2, 2), a, a).dtype == mg.bfloat16


def test_autocast_leaves_float64_and_integers_unchanged():
    x = mg.tensor(np.ones((2, 2)))
    with mg.autocast():
        assert (x @ x).dtype == mg.float64
        assert (mg.arange(4).reshape(2, 2) @ mg.arange(4).reshape(2, 2)).dtype == mg.int64
        assert mg.arange(4).sum().dtype == mg.int64


@pytest.mark.parametrize("create_graph", [False, True])
def test_checkpoint_recomputes_under_the_same_autocast(create_graph):
    """The first time under autocast, and so again, whatever holds when backward() runs."""
    x, w = mg.randn(3, 4), mg.randn(4, 4, requires_grad=True)
    seen = []
    found = []

    def block(x):
        y = (x @ w).tanh() @ w
        seen.append(y.dtype)
        return y

    for call in (block, lambda x: mg.autograd.checkpoint(block, x)):
        with mg.autocast(dtype="bfloat16"):
            y = call(x)
        found.append(mg.autograd.grad(y.float().square().sum(), [w], create_graph=create_graph)[0])
    assert set(seen) == {mg.bfloat16}
    assert len(seen) >= 3
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())


def test_autocast_in_the_backward_pass_changes_no_gradient():
    """What a gradient that is differentiated again computes in was chosen when its op was called."""
    x = mg.randn(4, 4, requires_grad=True)
    y = (x @ x).exp().sum()
    (expected,) = mg.autograd.grad(y, [x], create_graph=True)
    with mg.autocast(dtype="bfloat16"):
        (given,) = mg.autograd.grad(y, [x], create_graph=True)
    assert given.dtype == mg.float32
    np.testing.assert_array_equal(given.numpy(), expected.numpy())


@for_each([name for name, r in registry.items() if r.samples and r.source.__module__.startswith("minigrad.")])
def test_bfloat16_gradients_of_any_order_are_bfloat16(name):
    """Values, gradients, and gradients that can be differentiated: of each op, and what is made of ops."""
    record = registry[name]
    if name in ("astype", "float_power"):
        pytest.skip("gives another dtype")
    half = lambda v: (
        mg.tensor(v).to("bfloat16").requires_grad_() if isinstance(v, np.ndarray) and v.dtype.kind == "f"
        else mg.tensor(v) if isinstance(v, np.ndarray) else v
    )  # fmt: skip
    for sample in record.samples(np.random.default_rng(0)):
        args = map_leaves(half, sample.args)
        kwargs = map_leaves(half, sample.kwargs)
        xs = [x for x in leaves((args, kwargs)) if isinstance(x, mg.Tensor) and x.requires_grad]
        out = leaves(record.call(*args, **kwargs))
        outs = [y for y in out if isinstance(y, mg.Tensor) and y.requires_grad]
        for create_graph in (False, True) if xs and outs else ():
            ones = [mg.ones_like(y) for y in outs]
            gradients = mg.autograd.grad(
                outs, xs, ones, create_graph=create_graph, retain_graph=True, allow_unused=True
            )
            assert {g.dtype for g in gradients if g is not None} <= {mg.bfloat16}


def test_a_gradient_is_added_up_in_float32():
    """1 + 2**-9 a thousand times: in bfloat16 the sum would stop at 1."""
    for half in HALVES:
        table = mg.zeros(2, 3, dtype=half, requires_grad=True)
        ids = mg.zeros(1025, dtype="int64")
        small = mg.tensor(np.r_[1.0, np.full(1024, 2.0**-10)]).to(half)
        for rows in (table[ids], F.embedding(ids, table)):
            (g,) = mg.autograd.grad(rows, [table], small.unsqueeze(1).expand(1025, 3))
            np.testing.assert_array_equal(g.numpy().astype(np.float32), [[2] * 3, [0] * 3])


def test_nan_to_num_uses_the_limits_of_bfloat16():
    largest = 3.3895313892515355e38
    x = mg.tensor([np.inf, -np.inf, np.nan, 1.5]).to("bfloat16").requires_grad_()
    y = x.nan_to_num()
    assert y.tolist() == [largest, -largest, 0, 1.5]
    assert y.dtype == mg.bfloat16
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]
    norm = nn.RMSNorm(4).bfloat16()
    assert norm(mg.ones(2, 4).bfloat16()).dtype == mg.bfloat16


def test_float16_and_bfloat16_promote_to_float32():
    a, b = mg.ones(2, dtype="bfloat16"), mg.ones(2, dtype="float16")
    assert (a + b).dtype == (a + mg.ones(2)).dtype == mg.float32
    assert (a * 2.5).dtype == (a + mg.ones((), dtype="float32")).dtype == mg.bfloat16
    assert (mg.arange(2) * a).dtype == mg.bfloat16
    assert mg.tensor(a).numpy().dtype == mg.bfloat16
    with pytest.raises(DtypeError, match="cannot be converted to int8"):
        (a * 1e6).to("int8")


NORMS = {
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
    "layer_norm, no bias": lambda x, w: F.layer_norm(x, (4,), w),
    "rms_norm": lambda x, w: F.rms_norm(x, (4,), w, 1e-5),
    "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, True),
    "batch_norm of statistics": lambda x, w: F.batch_norm(x, w.detach(), w.detach(), w, w),
    "instance_norm": lambda x, w: F.instance_norm(x, None, None, w, w),
    "instance_norm of statistics": lambda x, w: F.instance_norm(x, w.detach(), w.detach(), w, w, False),
}


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NORMS)
def test_norms_with_float32_weights_return_half_precision(name, half):
    """As in PyTorch: the result has the input's dtype, computed in float32 and rounded once."""
    norm = NORMS[name]
    x = mg.randn(3, 4, 4).to(half).requires_grad_()
    w = (mg.rand(4) + 0.5).requires_grad_()
    y = norm(x, w)
    assert y.dtype == half
    np.testing.assert_array_equal(y.float().numpy(), norm(x.float(), w).to(half).float().numpy())
    y.sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (x.dtype, mg.float32)
    assert norm(x.detach().float(), w.detach().to(half)).dtype == mg.float32
    with mg.autocast(dtype=half):
        assert norm(x, w).dtype == (half if name.startswith(("layer", "rms")) else mg.float32)
        with mg.fused(False):
            assert norm(x, w).dtype == (half if name.startswith(("layer", "rms")) else mg.float32)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("x", "weight", "bias", "result"),
    [
        ("float32", "float32", "float16", "float32"),
        ("float32", None, "bfloat16", "float32"),
        ("float32", "float32", "float64", "float64"),
        ("float64", "float64", "float16", "float64"),
        ("float64", "float32", "float32", "float64"),
        ("bfloat16", "float32", "bfloat16", "bfloat16"),
        ("bfloat16", None, "float32", "bfloat16"),
        ("bfloat16", "float64", "float32", "float64"),
        ("int64", "float32", None, "float32"),
    ],
)
def test_layer_norm_promotes_parameters(x, weight, bias, result, fused):
    """Only 16-bit inputs keep their dtype, beside float32 parameters; gradients have their tensor's dtype."""
    exact = mg.tensor([[1.0, 2.0, 4.0]]).to(x)
    parameters = [
        None if dtype is None else mg.full((3,), value).to(dtype).requires_grad_()
        for dtype, value in ((weight, 1e6), (bias, 1.0))
    ]
    with mg.fused(fused):
        y = F.layer_norm(exact, (3,), *parameters)
        y.sum().backward()
    assert y.dtype == result
    assert all(p.grad.dtype == p.dtype for p in parameters if p is not None)


def test_autocast_takes_a_half_precision_and_can_be_off():
    x = mg.ones(2, 2)
    with mg.autocast(dtype="bfloat16"):
        with mg.autocast(enabled=False):
            assert (x @ x).dtype == mg.float32
        assert (x @ x).dtype == mg.bfloat16
    with pytest.raises(OptionError, match="bfloat16 or float16, got float32"):
        mg.autocast(dtype="float32")
    with pytest.raises(OptionError, match="'cpu' or 'cuda', got 'bfloat16'"):
        mg.autocast("bfloat16")


@pytest.mark.parametrize("half", HALVES)
def test_training_under_autocast_matches_float32(half):
    """The same batches: losses run together, weights and gradients are float32 all along."""
    dropout = {"embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPTConfig(vocab_size=11, n_positions=8, n_embd=32, n_layer=1, n_head=2, **dropout)
    ids = np.random.default_rng(0).integers(0, 11, (30, 4, 9))
    losses = {}
    for dtype in ("float32", half):
        mg.manual_seed(0)
        model = GPT(config)
        optimizer = optim.AdamW(model.parameters(), lr=3e-3)
        scaler = mg.GradScaler(enabled=dtype == "float16")
        for batch in ids % 3:  # three tokens: something to learn
            with mg.autocast(dtype=half, enabled=dtype != "float32"):
                loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, 11), batch[:, 1:].reshape(-1))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            assert {p.grad.dtype for p in model.parameters()} == {mg.float32}
            scaler.step(optimizer)
            scaler.update()
            losses.setdefault(dtype, []).append(loss.item())
        assert {p.dtype for p in model.parameters()} == {mg.float32}
    np.testing.assert_allclose(losses[half], losses["float32"], rtol=0.02)
    assert losses[half] != losses["float32"]
    assert losses[half][-1] < 0.6 * losses[half][0]


# ---------------------------------------------------------------- the scaler


def scaled(factor, **settings):
    p = nn.Parameter(np.array([1.0, 2.0], np.float32))
    optimizer = optim.SGD([p], lr=1.0)
    return p, optimizer, mg.GradScaler(init_scale=factor, **settings)


def test_grad_scaler_unscales_gradients_once_per_update():
    """A scaler that update() was not told of would take its next step with gradients not divided."""
    p, optimizer, scaler = scaled(8.0)
    with pytest.raises(StateError, match="called before step"):
        scaler.update()
    scaler.scale((p * p).sum()).backward()
    np.testing.assert_array_equal(p.grad.numpy(), [16, 32])
    scaler.unscale_(optimizer)
    np.testing.assert_array_equal(p.grad.numpy(), [2, 4])
    with pytest.raises(StateError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(StateError, match="already been called since the last update"):
        scaler.step(optimizer)
    with pytest.raises(StateError, match="called after step"):
        scaler.unscale_(optimizer)
    np.testing.assert_array_equal(p.numpy(), [-1, -2])
    scaler.update()
    optimizer.zero_grad()
    scaler.scale((p * p).sum()).backward()
    scaler.step(optimizer)
    np.testing.assert_array_equal(p.numpy(), [1, 2])


@pytest.mark.parametrize(
    "settings",
    [
        {"init_scale": "a"},
        {"init_scale": np.inf},
        {"growth_factor": 1},
        {"backoff_factor": np.nan},
        {"growth_interval": 1.5},
        {"device": "tpu"},
    ],
)
def test_grad_scaler_rejects_invalid_settings(settings):
    with pytest.raises(OptionError, match=re.escape(repr(next(iter(settings.values()))))):
        mg.GradScaler(**settings)


def test_grad_scaler_rejects_invalid_calls_and_states():
    p, _, scaler = scaled(8.0)
    for call in (scaler.step, scaler.unscale_):
        with pytest.raises(DtypeError, match="needs an optimizer, got Parameter"):
            call(p)
    with pytest.raises(StateError, match="it has no _growth_tracker, backoff_factor"):
        scaler.load_state_dict({})
    with pytest.raises(OptionError, match="init_scale=0"):
        scaler.load_state_dict(scaler.state_dict() | {"scale": 0})
    half = nn.Parameter(np.ones(2, np.float16))
    half.grad = mg.ones(2, dtype="float16")
    with pytest.raises(DtypeError, match="float16 gradients cannot be unscaled"):
        scaler.step(optim.SGD([half], lr=1.0))


def test_grad_scaler_raises_if_gradients_are_never_finite():
    p, optimizer, scaler = scaled(2.0**-13)

    def step():
        p.grad = mg.tensor([1.0, np.nan])
        scaler.step(optimizer)
        scaler.update()

    step()
    with pytest.raises(NonFiniteError, match="even with a factor of"):
        step()


def test_grad_scaler_skips_infinite_steps_and_backs_off():
    p, optimizer, scaler = scaled(1024.0, growth_interval=2)
    factors = []
    for bad in (True, False, False, False):
        optimizer.zero_grad()
        scaler.scale((p * (np.inf if bad else 0.0)).sum()).backward()
        before = p.numpy().copy()
        scaler.step(optimizer)
        scaler.update()
        np.testing.assert_array_equal(p.numpy(), before)
        factors.append(scaler.get_scale())
    assert factors == [512, 512, 1024, 1024]
    other = mg.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == {
        "scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2,
        "_growth_tracker": 1,
    }  # fmt: skip


def test_a_disabled_grad_scaler_does_nothing():
    p, optimizer, _ = scaled(8.0)
    scaler = mg.GradScaler(enabled=False)
    loss = (p * p).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_array_equal(p.numpy(), [-1, -2])
    assert scaler.state_dict() == {}
    scaler.load_state_dict({})


def test_float32_matmul_precision_can_be_set():
    assert mg.get_float32_matmul_precision() == "highest"
    mg.set_float32_matmul_precision("high")
    try:
        assert mg.get_float32_matmul_precision() == "high"
        assert mg.backends.cuda.matmul.allow_tf32 is True
        mg.backends.cuda.matmul.allow_tf32 = False
        assert mg.get_float32_matmul_precision() == "highest"
    finally:
        mg.set_float32_matmul_precision("highest")
    with pytest.raises(OptionError, match="got 'medium'"):
        mg.set_float32_matmul_precision("medium")


def test_autocast_is_the_same_with_and_without_kernels():
    x = mg.randn(2, 3)
    w = mg.randn(4, 3)
    b = mg.randn(4)
    for function in (lambda: mg.nn.functional.linear(x, w, b), lambda: x.softmax(-1)):
        with mg.autocast(dtype=mg.bfloat16):
            fused = function()
            with mg.fused(False):
                readable = function()
        assert fused.dtype == readable.dtype
