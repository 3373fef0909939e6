"""Losses, embeddings and dropout beyond what parity compares: promises, mistakes, edges."""

import math

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import DtypeError, OptionError, RangeError, ShapeError
from minigrad.nn import functional as F
from tests.leaves import INF, assert_equal, leaf, message

LOGITS = np.random.default_rng(0).normal(size=(4, 3))
TARGET = np.array([2, -100, 0, 0])
WEIGHT = np.array([1.0, 2.0, 0.5])


# ---------------------------------------------------------------- cross-entropy in all its forms


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_unit_weights_and_one_hot_targets(reduction, smoothing):
    settings = {"reduction": reduction, "label_smoothing": smoothing}
    known = TARGET != -100
    plain = F.cross_entropy(mg.tensor(LOGITS[known]), TARGET[known], **settings)
    one_hot = np.eye(3)[TARGET[known]]
    for other in (
        F.cross_entropy(mg.tensor(LOGITS[known]), TARGET[known], np.ones(3), **settings),
        F.cross_entropy(mg.tensor(LOGITS[known]), one_hot, **settings),
    ):
        np.testing.assert_allclose(other.array, plain.array, rtol=1e-12)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"label_smoothing": 0.1}, {"weight": mg.tensor([1.0, 2.0, 3.0])}, {"reduction": "none"}],
    ids=str,
)
def test_cross_entropy_of_integer_logits_is_float32(settings, dtype, fuse):
    logits = mg.tensor([[1, 0, 1], [0, 0, 1]], dtype=dtype)
    for target in (mg.tensor([0, 2]), mg.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])):
        with mg.fused(fuse):
            loss = F.cross_entropy(logits, target, **settings)
            assert loss.dtype == mg.float32
            np.testing.assert_allclose(
                loss.numpy(), F.cross_entropy(logits.float(), target, **settings).numpy()
            )


# ---------------------------------------------------------------- edges


def test_a_variance_below_eps_still_gets_a_gradient():
    var = leaf([0.0])
    F.gaussian_nll_loss(mg.tensor([0.0]), mg.tensor([1.0]), var).backward()
    assert var.grad.item() < 0


def test_grouped_attention_is_attention_with_repeated_heads():
    rng = np.random.default_rng(0)
    q, k, v = (mg.tensor(rng.normal(size=shape)) for shape in ((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)))
    grouped = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    each = F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1))
    np.testing.assert_array_equal(grouped.array, each.array)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("q", "k", "settings"),
    [
        ((2, 3), (0, 3), {}),
        ((4, 3, 2), (2, 5, 2), {"attn_mask": np.zeros((3, 5), bool), "enable_gqa": True}),
    ],
    ids=["no keys", "all masked, in groups"],
)
def test_attention_to_nothing_gives_zeros(q, k, settings, fused):
    q, k = leaf(np.ones(q)), leaf(np.ones(k))
    with mg.fused(fused):
        y = F.scaled_dot_product_attention(q, k, k, **settings)
    y.sum().backward()
    np.testing.assert_array_equal(y.array, np.zeros(q.shape))
    np.testing.assert_array_equal(q.grad.array, np.zeros(q.shape))


# ---------------------------------------------------------------- rows that see nothing, or are ignored


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mask", [np.zeros((2, 3), bool), np.full((2, 3), -INF)], ids=["boolean", "float"])
def test_a_query_without_keys_gives_zeros(fused, mask):
    q, k, v = (leaf(np.random.default_rng(i).normal(size=(n, 4))) for i, n in enumerate((2, 3, 3)))
    mask[1, 2] = True if mask.dtype == bool else 0.0
    with mg.fused(fused):
        out = F.scaled_dot_product_attention(q, k, v, mask)
    out.sum().backward()
    assert_equal(out[0], np.zeros(4))
    assert_equal(out[1], v.array[2])
    assert_equal(q.grad, np.zeros((2, 4)))
    assert_equal(v.grad, [[0] * 4, [0] * 4, [1] * 4])


@pytest.mark.parametrize(("fused", "ignored"), [(True, -INF), (False, -INF), (True, math.nan)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ignored_rows_do_not_change_cross_entropy(fused, ignored, reduction, smoothing):
    logits = leaf([[1.0, 2.0, 0.5], [ignored, 1.0, 0.0]])
    alone = leaf([[1.0, 2.0, 0.5]])
    with mg.fused(fused), np.errstate(invalid="ignore"):
        loss = F.cross_entropy(logits, [2, -100], reduction=reduction, label_smoothing=smoothing)
        expected = F.cross_entropy(alone, [2], reduction=reduction, label_smoothing=smoothing)
        loss.sum().backward()
        expected.sum().backward()
    assert_equal(loss.sum(), expected.sum().item())
    assert_equal(logits.grad, np.concatenate([alone.grad.array, np.zeros((1, 3))]))


@pytest.mark.parametrize("fused", [True, False])
def test_softmax_of_one_class_is_1(fused):
    x = leaf([[3.0], [-2.0]])
    with mg.fused(fused):
        assert_equal(x.softmax(-1), [[1], [1]])
        assert_equal(x.log_softmax(-1), [[0], [0]])
        F.cross_entropy(x, [0, 0]).backward()
    assert_equal(x.grad, [[0], [0]])


# ---------------------------------------------------------------- embedding and dropout


@pytest.mark.parametrize("padding_idx", [1, -3])
def test_the_padding_row_of_an_embedding_gets_no_gradient(padding_idx):
    layer = nn.Embedding(4, 2, padding_idx=padding_idx)
    assert layer.weight[1].tolist() == [0, 0]
    with mg.no_grad():
        layer.weight[1] = 5.0
    y = layer([[0, 1], [1, 3]])
    assert y[0, 1].tolist() == [5, 5]
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [("Dropout1d", (50, 40, 3)), ("Dropout2d", (50, 40, 3, 2)), ("Dropout3d", (50, 40, 2, 1, 2)),
     ("Dropout1d", (2000, 3)), ("Dropout3d", (2000, 1, 2, 2))],
)  # fmt: skip
def test_dropout_layers_drop_whole_channels(layer, shape):
    layer = getattr(nn, layer)
    y = layer(0.25)(mg.ones(*shape)).array
    channels = y.reshape(2000, -1)
    assert (channels == channels[:, :1]).all()
    kept = channels[:, 0] != 0
    assert abs(kept.mean() - 0.75) < 0.05
    np.testing.assert_allclose(channels[kept], 1 / 0.75, rtol=1e-4)
    x = mg.ones(*shape)
    assert layer().eval()(x) is x


def test_alpha_dropout_keeps_mean_and_variance():
    x = mg.tensor(np.random.default_rng(0).normal(size=(400, 500)))
    y = nn.AlphaDropout(0.3)(x).array
    assert abs(y.mean()) < 0.01
    assert abs(y.std() - 1) < 0.01
    assert 0.29 < np.unique(y, return_counts=True)[1].max() / y.size < 0.31
    assert nn.AlphaDropout(0.3).eval()(x) is x


# ---------------------------------------------------------------- mistakes

A = mg.zeros(4, 3)
ONES = np.ones((4, 3))
MISTAKES = {
    "a weight too many": (lambda: F.cross_entropy(A, TARGET, np.ones(4)), ShapeError, r"\(3,\), got \(4,\)"),
    "probabilities of integers": (lambda: F.cross_entropy(A, np.ones((4, 3), int)), ShapeError, r"\(4,\)"),
    "an ignored class of probabilities": (lambda: F.cross_entropy(A, ONES / 3, ignore_index=1), OptionError,
        "ignore_index=1 needs class numbers"),
    "too much smoothing": (lambda: F.cross_entropy(A, TARGET, label_smoothing=1.5), OptionError, "0 to 1"),
    "no class": (lambda: F.cross_entropy(A, TARGET + 3, WEIGHT), RangeError, "out of range"),
    "classes of floats": (lambda: F.nll_loss(A, np.ones(4)), DtypeError, "integers"),
    "no probability": (lambda: F.binary_cross_entropy(A - 1, ONES), RangeError, "with_logits"),
    "another shape": (lambda: F.binary_cross_entropy(A, np.ones(4)), ShapeError, "the input's shape"),
    "another shape of logits": (lambda: F.soft_margin_loss(A, np.ones(3)), ShapeError, "the input's shape"),
    "a reduction": (lambda: F.l1_loss(A, ONES, reduction="avg"), OptionError, "'avg'"),
    "batchmean elsewhere": (lambda: F.mse_loss(A, ONES, reduction="batchmean"), OptionError, "'batchmean'"),
    "beta": (lambda: F.smooth_l1_loss(A, ONES, beta=-1), OptionError, "beta"),
    "delta": (lambda: F.huber_loss(A, ONES, delta=0), OptionError, "delta"),
    "var": (lambda: F.gaussian_nll_loss(A, ONES, -ONES), RangeError, "negative variance"),
    "p": (lambda: F.multi_margin_loss(A, TARGET, p=3), OptionError, "p must be 1 or 2"),
    "margin's class": (lambda: F.multi_margin_loss(A, TARGET), RangeError, "-100"),
    "rows": (lambda: F.multi_margin_loss(A, [0]), ShapeError, "for each row"),
    "labels of floats": (lambda: F.multilabel_margin_loss(A, ONES), DtypeError, "list classes"),
    "cosine's target": (lambda: F.cosine_embedding_loss(A, A, ONES), ShapeError, r"\(4,\)"),
    "a padding row": (lambda: nn.Embedding(3, 2, padding_idx=3), RangeError, "padding_idx 3"),
    "channels": (lambda: F.dropout2d(mg.ones(2, 3)), ShapeError, "dropout2d"),
    "heads": (lambda: F.scaled_dot_product_attention(
        mg.ones(3, 2, 4), *[mg.ones(2, 2, 4)] * 2, enable_gqa=True), ShapeError, "multiple"),
    "groups of heads": (lambda: F.scaled_dot_product_attention(
        mg.ones(4, 2, 4), *[mg.ones(2, 2, 4)] * 2), ShapeError, "4 query heads on 2 .* enable_gqa=True"),
    "heads that are no groups": (lambda: F.scaled_dot_product_attention(
        mg.ones(4, 2, 4), *[mg.ones(3, 2, 4)] * 2), ShapeError, "same batch and heads"),
    "batches": (lambda: F.scaled_dot_product_attention(
        mg.ones(2, 4, 2, 4), *[mg.ones(3, 2, 2, 4)] * 2), ShapeError, "same batch and heads"),
    "the mask of scores": (lambda: F.scaled_dot_product_attention(
        mg.ones(3, 2, 4), *[mg.ones(3, 5, 4)] * 2, mg.ones(5, 2) > 0), ShapeError,
        r"attn_mask of shape \(5, 2\) does not broadcast to the scores, \(3, 2, 5\)"),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_explained(mistake, error, message):
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert str(caught.value).count("\n") >= 1


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_broadcasting_targets_warn(loss):
    loss = getattr(F, loss)
    with pytest.warns(UserWarning, match=r"\(4, 1\) with target \(4,\)") as warned:
        loss(mg.ones(4, 1), mg.ones(4))
    assert warned[0].filename == __file__


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (1, 3), (4,), ()])
def test_gaussian_nll_loss_broadcasts_the_variance(shape):
    x = mg.ones(4, 3)
    target = mg.zeros(4, 3)
    var = mg.full(shape, 2.0)
    assert F.gaussian_nll_loss(x, target, var).item() == pytest.approx(0.5 * (np.log(2) + 0.5))
    with pytest.raises(ShapeError, match="with one axis of length 1"):
        F.gaussian_nll_loss(x, target, mg.ones(1, 1))


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize(
    ("logits", "target", "advice"),
    [
        ((2, 3, 5), mg.zeros(2, 3, dtype="int64"), "logits.reshape(-1, V), target.reshape(-1)"),
        ((4, 5), mg.zeros(4), "target.long()"),
        ((4, 5), mg.zeros(4, 1, dtype="int64"), "target.reshape(4)"),
    ],
)
def test_target_shape_errors_suggest_a_fix(loss, logits, target, advice):
    assert advice in message(lambda: getattr(F, loss)(mg.randn(*logits), target))


@pytest.mark.parametrize(
    "call",
    [
        lambda ids: F.one_hot(ids),
        lambda ids: mg.ones(3, 3).gather(0, ids.reshape(1, -1)),
        lambda ids: mg.ones(3, 3)[ids],
        lambda ids: mg.ones(3, 3).index_select(0, ids),
        lambda ids: mg.ones(3).take(ids),
        lambda ids: mg.ones(3).scatter(0, ids, 1.0),
        lambda ids: mg.bincount(ids),
        lambda ids: mg.ones(3, 3).take_along_dim(ids.reshape(1, -1), 0),
    ],
)
def test_float_indices_suggest_long(call):
    assert ".long()" in message(lambda: call(mg.zeros(2)))
