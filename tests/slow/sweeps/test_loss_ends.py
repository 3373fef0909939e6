"""Every loss at both its ends, where it vanishes and where it is large, beside closed forms.

Errors are relative: what is 4e-8 must not be 0. Of each loss there is a value, a first and a second
derivative by its first argument, written in float64 with functions that keep their digits (log1p, expm1).
"""

import math
from typing import NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from tests.kernel_sets import BOTH

inf = math.inf
SIZES = [1e-4, 0.1, 1.0, 5.0, 10.0, 17.0, 30.0, 40.0, 80.0, 300.0, 700.0, 1e4]
ENDS = np.array([-x for x in reversed(SIZES)] + SIZES)
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


# ---------------------------------------------------------------- functions that keep their digits


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def bell(x):
    """The derivative of the logistic function."""
    e = np.exp(-np.abs(x))
    return e / (1 + e) ** 2


# ---------------------------------------------------------------- the losses


class Case(NamedTuple):
    """A loss as a function of x, elementwise, and what it and its derivatives are for a float64 array x."""

    loss: object
    points: np.ndarray
    expected: object  # x -> (value, first derivative, second derivative)
    vanishes: bool = True  # else errors are relative to 1 where the result is smaller


def of_logits(loss, target, weight=1.0):
    """weight * (t log(1 + e**-x) + (1 - t) log(1 + e**x))."""
    t = target

    def expected(x):
        value = (t * softplus(-x) if t else 0.0) + ((1 - t) * softplus(x) if t != 1 else 0.0)
        slope = (
            (1 - t) * logistic(x) - t * logistic(-x)
            if 0 < t < 1
            else logistic(x)
            if t == 0
            else -logistic(-x)
        )
        return weight * value, weight * slope, weight * bell(x)

    return Case(loss, ENDS, expected)


def constant(x, value):
    return mg.full_like(x, value)


def bce(target, **settings):
    return lambda x: F.binary_cross_entropy_with_logits(x, constant(x, target), reduction="none", **settings)


def rows(x, *others):
    """(N, classes): x in the first class, numbers in the others."""
    return mg.stack([x, *(constant(x, other) for other in others)], 1)


def classes(x, target):
    return mg.tensor(np.full(x.shape, target))


def entropy(target, *others, weight=None, **settings):
    def loss(x):
        weights = None if weight is None else mg.tensor(np.array(weight), dtype=x.dtype)
        return F.cross_entropy(rows(x, *others), classes(x, target), weights, reduction="none", **settings)

    return loss


def smoothed(x, e):
    """Two classes, x and 0, target 0, label smoothing e."""
    return (
        (1 - e / 2) * softplus(-x) + e / 2 * softplus(x),
        e / 2 * logistic(x) - (1 - e / 2) * logistic(-x),
        bell(x),
    )


def two_others(x):
    """Classes x, 0 and 1, target 0: log(1 + e**u), u = log(1 + e) - x."""
    u = math.log1p(math.e) - x
    return softplus(u), -logistic(u), bell(u)


def hinge(margin, sign):
    """max(0, margin + sign x)."""
    return lambda x: (np.maximum(margin + sign * x, 0), sign * (margin + sign * x > 0.0), np.zeros_like(x))


def huber(delta, scale):
    def expected(x):
        near = np.abs(x) <= delta
        value = np.where(near, x * x / 2, delta * (np.abs(x) - delta / 2))
        return scale * value, scale * np.where(near, x, delta * np.sign(x)), None

    return expected


def against(name, *targets, **settings):
    """The loss with constant targets; each a number."""
    return lambda x: getattr(F, name)(x, *(constant(x, t) for t in targets), reduction="none", **settings)


def columns(name, *targets, **settings):
    """A loss of rows of one number with a target of rows of one."""
    return lambda x: getattr(F, name)(
        x.unsqueeze(1), *(constant(x, t).unsqueeze(1) for t in targets), reduction="none", **settings
    ).reshape(-1)


def against_one(y):
    """The cosine loss of (x, 0) and (1, 0)."""
    return lambda x: F.cosine_embedding_loss(
        rows(x, 0.0), rows(constant(x, 1.0), 0.0), constant(x, y), reduction="none"
    )


def apart(x, y):
    """What that is: 1e-12 is added to each squared length."""
    cosine = x / np.sqrt((x * x + 1e-12) * (1 + 1e-12))
    return 1 - cosine if y == 1 else np.maximum(cosine, 0)


NEAR = np.array([1e-300, 1e-30, 1e-12, 1e-8, 1e-4, 0.1, 0.5, 0.9, 1 - 1e-4])
MARGIN = np.array([-1e4, -2.0, -1.0001, -0.9999, -1e-4, 1e-4, 0.9999, 1.0001, 2.0, 1e4])
FAR = np.array([x for x in ENDS if abs(x) <= 80])

ONE = np.ones_like
of_zero = lambda x: (0 * x, 0 * x, 0 * x)
minus_x = lambda x: (-x, -ONE(x), 0 * x)
size_of_x = lambda x: (np.abs(x), np.sign(x), 0 * x)
CASES = {
    "binary_cross_entropy_with_logits": [
        *[of_logits(bce(t), t) for t in (0.0, 0.25, 1.0)],
        of_logits(
            lambda x: F.binary_cross_entropy_with_logits(x, constant(x, 1.0), constant(x, 3.0), "none"),
            1.0, 3.0,
        ),
        of_logits(lambda x: bce(1.0, pos_weight=constant(x, 4.0))(x), 1.0, 4.0),
        of_logits(lambda x: bce(0.0, pos_weight=constant(x, 4.0))(x), 0.0),
    ],
    "multilabel_soft_margin_loss": [
        of_logits(columns("multilabel_soft_margin_loss", t), t) for t in (0.0, 1.0)
    ],
    "soft_margin_loss": [of_logits(against("soft_margin_loss", t), (t + 1) / 2) for t in (-1.0, 1.0)],
    "cross_entropy": [
        of_logits(entropy(0, 0.0), 1.0),
        of_logits(entropy(1, 0.0), 0.0),
        of_logits(entropy(0, 0.0, weight=[3.0, 1.0]), 1.0, 3.0),
        of_logits(entropy(0, 0.0, -inf), 1.0),
        Case(entropy(0, 0.0, 1.0), ENDS, two_others),
        *[Case(entropy(0, 0.0, label_smoothing=e), ENDS, lambda x, e=e: smoothed(x, e), False)
          for e in (0.1, 1.0)],
        Case(
            lambda x: F.cross_entropy(rows(x, 0.0), rows(constant(x, 0.9), 0.1), reduction="none"),
            ENDS, lambda x: smoothed(x, 0.2), False,
        ),
    ],
    "nll_loss": [Case(lambda x: F.nll_loss(rows(x, 0.0), classes(x, 0), reduction="none"), ENDS, minus_x)],
    "binary_cross_entropy": [
        Case(against("binary_cross_entropy", 1.0), NEAR[3:], lambda p: (-np.log(p), -1 / p, None)),
        Case(against("binary_cross_entropy", 0.0), NEAR[3:], lambda p: (-np.log1p(-p), 1 / (1 - p), None)),
    ],
    "kl_div": [
        Case(against("kl_div", 0.0), ENDS, of_zero),
        Case(against("kl_div", 1.0), ENDS, minus_x),
        Case(against("kl_div", -inf, log_target=True), ENDS, of_zero),
        Case(against("kl_div", 0.0, log_target=True), ENDS, minus_x),
    ],
    "mse_loss": [
        Case(against("mse_loss", 0.0), ENDS, lambda x: (x * x, 2 * x, 2 * ONE(x))),
    ],
    "l1_loss": [Case(against("l1_loss", 0.0), np.append(ENDS, 0.0), size_of_x)],
    "smooth_l1_loss": [
        *[
            Case(against("smooth_l1_loss", 0.0, beta=b), np.append(ENDS, [-b, 0.0, b]), huber(b, 1 / b))
            for b in (1.0, 0.25)
        ],
        Case(against("smooth_l1_loss", 0.0, beta=0.0), np.append(ENDS, 0.0),
             lambda x: (*size_of_x(x)[:2], None)),
    ],
    "huber_loss": [
        Case(against("huber_loss", 0.0, delta=d), np.append(ENDS, [-d, 0.0, d]), huber(d, 1))
        for d in (1.0, 0.25)
    ],
    "gaussian_nll_loss": [
        Case(against("gaussian_nll_loss", 0.0, 0.25), ENDS,
             lambda x: (0.5 * (math.log(0.25) + x * x / 0.25), x / 0.25, 4 * ONE(x))),
        Case(
            lambda v: F.gaussian_nll_loss(constant(v, 1.0), constant(v, 0.0), v, reduction="none"),
            np.array([1e-5, 0.5, 2.0, 1e4, 1e8]),
            lambda v: (0.5 * (np.log(v) + 1 / v), 0.5 * (1 / v - 1 / v**2), 0.5 * (2 / v**3 - 1 / v**2)),
        ),
    ],
    "poisson_nll_loss": [
        Case(against("poisson_nll_loss", 0.0), FAR, lambda x: (np.exp(x), np.exp(x), np.exp(x))),
        Case(against("poisson_nll_loss", 2.0, log_input=False, eps=0.0), NEAR[2:],
             lambda x: (x - 2 * np.log(x), 1 - 2 / x, 2 / x**2)),
    ],
    "hinge_embedding_loss": [
        Case(against("hinge_embedding_loss", 1.0), MARGIN, lambda x: (x, ONE(x), 0 * x)),
        Case(against("hinge_embedding_loss", -1.0), MARGIN, hinge(1.0, -1)),
    ],
    "margin_ranking_loss": [
        Case(against("margin_ranking_loss", 0.0, y, margin=1.0), MARGIN, hinge(1.0, -y)) for y in (1, -1)
    ],
    "multi_margin_loss": [
        Case(lambda x, t=t: F.multi_margin_loss(rows(x, 0.0), classes(x, t), reduction="none") * 2,
             MARGIN, hinge(1.0, sign))
        for t, sign in ((0, -1), (1, 1))
    ],
    "multilabel_margin_loss": [
        Case(
            lambda x: F.multilabel_margin_loss(
                rows(x, 0.0), mg.tensor([[0, -1]] * len(x)), reduction="none"
            ) * 2,
            MARGIN, hinge(1.0, -1),
        ),
    ],
    "triplet_margin_loss": [
        Case(
            lambda x: F.triplet_margin_loss(
                *[constant(x, 0.0)[:, None]] * 2, x[:, None], eps=0.0, reduction="none"
            ),
            MARGIN[MARGIN > 0], hinge(1.0, -1),
        ),
    ],
    "triplet_margin_with_distance_loss": [
        Case(
            lambda x: F.triplet_margin_with_distance_loss(
                constant(x, 0.0), constant(x, 0.0), x, distance_function=lambda a, b: b, reduction="none"
            ),
            MARGIN, hinge(1.0, -1),
        ),
    ],
    "cosine_embedding_loss": [
        Case(against_one(y), MARGIN[np.abs(MARGIN) > 0.5], lambda x, y=y: (apart(x, y), None, None), False)
        for y in (1, -1)
    ],
}  # fmt: skip
ALL = [pytest.param(case, id=f"{name}-{i}") for name, cases in CASES.items() for i, case in enumerate(cases)]


def test_every_loss_has_a_closed_form_case():
    """Add the closed form of a new loss to CASES."""
    losses = {name for name in F.__all__ if name.endswith("_loss") or "entropy" in name or name == "kl_div"}
    assert losses == CASES.keys()


def check(found, expected, condition, dtype, what, vanishes):
    """Relative errors, but for what underflows; `condition`: what an input's rounding does to the result."""
    limits = np.finfo(dtype)
    expected = np.clip(expected, -limits.max, limits.max)
    size = np.abs(expected) if vanishes else np.maximum(np.abs(expected), 1)
    error = np.abs(found - expected) - limits.smallest_normal
    np.testing.assert_array_less(error, (16 + condition) * EPS[dtype] * size + 1e-320, what)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", [*BOTH, "definitions"])
def test_losses_are_accurate_for_extreme_inputs(case, dtype, way):
    points = case.points.astype(dtype)
    points = points[np.abs(points) > np.finfo(dtype).tiny]
    with mg.fused(way != "definitions"), mg.kernels.use("jit" if way == "jit" else "numpy"):
        x = mg.tensor(points, requires_grad=True)
        value = case.loss(x)
        (slope,) = mg.autograd.grad(value.sum(), x)
        (first,) = mg.autograd.grad(case.loss(x).sum(), x, create_graph=True)
        second = mg.autograd.grad(first.sum(), x)[0] if first.requires_grad else mg.zeros_like(x)
    with np.errstate(all="ignore"):
        expected = case.expected(points.astype(np.float64))
    condition = np.abs(points.astype(np.float64))  # an exponential of x
    for found, wanted, what in zip(
        (value, first, second), expected, ("value", "slope", "curvature"), strict=True
    ):
        if wanted is not None:
            # the second derivative of a definition adds up parts that cancel
            vanishes = case.vanishes and not (what == "curvature" and way == "definitions")
            check(found.array, wanted, condition, dtype, what, vanishes)
    if expected[1] is not None:
        check(slope.array, expected[1], condition, dtype, "slope by kernels", case.vanishes)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("case", ALL)
def test_reduced_losses_are_accurate_for_extreme_inputs(case, reduction):
    x = mg.tensor(case.points, requires_grad=True)
    each = case.loss(x).detach().array
    total = math.fsum(each) / (len(each) if reduction == "mean" else 1)
    reduced = getattr(case.loss(x), reduction)()
    np.testing.assert_allclose(reduced.item(), total, rtol=1e-12)


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_binary_cross_entropy_of_infinite_logits(target):
    right = inf if target else -inf
    x = mg.tensor([right, -right], requires_grad=True)
    losses = bce(target)(x)
    losses.sum().backward()
    assert losses.tolist() == [0, inf]
    assert x.grad.tolist() == [0, 1 - 2 * target]


@pytest.mark.parametrize("way", [*BOTH, "definitions"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_confident_cross_entropy_does_not_underflow_to_zero(way, reduction):
    """In float32 softmax is 1 from a lead of 17 on; the loss, 4e-8, and its gradient are not 0."""
    with mg.fused(way != "definitions"), mg.kernels.use("jit" if way == "jit" else "numpy"):
        x = mg.tensor([[17.0, 0.0, -1.0], [0.0, 30.0, -inf]], requires_grad=True)
        loss = F.cross_entropy(x, [0, 1], reduction=reduction)
        loss.backward()
    first = math.log1p(math.exp(-17) + math.exp(-18))
    second = math.log1p(math.exp(-30))
    scale = 2 if reduction == "mean" else 1
    assert loss.item() * scale == pytest.approx(first + second, rel=1e-6)
    assert x.grad[0, 0].item() * scale == pytest.approx(math.expm1(-first), rel=1e-5)
    assert x.grad[1, 1].item() * scale == pytest.approx(math.expm1(-second), rel=1e-5)
