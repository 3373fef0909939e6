"""Convolution, pooling, normalization, resampling beyond what parity compares: promises, mistakes, edges."""

import math
import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.core.errors import DtypeError, OptionError, ShapeError
from minigrad.nn import functional as F

rng = np.random.default_rng(0)
IMAGE = mg.tensor(rng.normal(size=(2, 4, 5, 6)))
KERNEL = mg.tensor(rng.normal(size=(6, 2, 2, 3)))
HOW = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}


# ---------------------------------------------------------------- convolution


def test_third_derivatives_of_a_convolution():
    x = mg.tensor(rng.normal(size=(1, 1, 4)), requires_grad=True)
    w = mg.tensor(rng.normal(size=(1, 1, 2)), requires_grad=True)
    (first,) = mg.autograd.grad((F.conv1d(x, w) ** 3).sum(), [w], create_graph=True)
    mg.gradcheck(
        lambda x, w: mg.autograd.grad((F.conv1d(x, w) ** 3).sum(), [w], create_graph=True)[0], [x, w], order=2
    )
    assert first.requires_grad


def test_an_empty_batch_has_zero_gradients():
    w = mg.tensor(KERNEL.array, requires_grad=True)
    y = F.conv2d(mg.zeros(0, 4, 5, 6, dtype="float64"), w, **HOW)
    y.sum().backward()
    assert y.shape[0] == 0
    assert not w.grad.array.any()


# ---------------------------------------------------------------- pooling


def test_max_pooling_ignores_padding():
    x = mg.full((1, 3, 3), -math.inf)
    y, places = F.max_pool2d(x, 2, 2, 1, return_indices=True)
    assert (y == -math.inf).all()
    assert places.array.tolist() == [[[0, 1], [3, 4]]]
    whole = mg.tensor([[[-5, -7, -6]]])
    assert F.max_pool1d(whole, 2, 2, 1).array.tolist() == [[[-5, -6]]]


# ---------------------------------------------------------------- normalization


def test_running_statistics_do_not_require_grad():
    norm = nn.BatchNorm2d(4).double()
    x = mg.tensor(IMAGE.array, requires_grad=True)
    norm(x).sum().backward()
    assert not norm.running_mean.requires_grad
    before = {name: buffer.numpy().copy() for name, buffer in norm.named_buffers()}
    assert before["num_batches_tracked"] == 1
    norm.eval()(x)
    for name, buffer in norm.named_buffers():
        np.testing.assert_array_equal(buffer.array, before[name])


def test_float32_stays_float32():
    x = IMAGE.to("float32").requires_grad_()
    network = nn.Sequential(
        nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.GroupNorm(2, 4), nn.RMSNorm(3),
        nn.Upsample(size=5, mode="bilinear"), nn.AvgPool2d(2, padding=1), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )  # fmt: skip
    y = network(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == mg.float32
    assert {p.grad.dtype for p in network.parameters()} == {mg.float32}


def test_fold_after_unfold_counts_overlaps():
    settings = {"kernel_size": (2, 3), "padding": 1, "stride": (1, 2)}
    ones = F.fold(F.unfold(mg.ones_like(IMAGE), **settings), (5, 6), **settings)
    back = F.fold(F.unfold(IMAGE, **settings), (5, 6), **settings)
    np.testing.assert_allclose(back.array, (IMAGE * ones).array, rtol=1e-12)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 2), (7, 13), (1, 1)])
def test_interpolating_a_constant_image_gives_the_constant(mode, antialias, size):
    y = F.interpolate(mg.ones(1, 1, 5, 6), size, mode=mode, antialias=antialias)
    np.testing.assert_allclose(y.array, 1, rtol=1e-6)


# ---------------------------------------------------------------- mistakes

MISTAKES = {
    "axes": (lambda: F.conv2d(mg.ones(3), KERNEL), ShapeError, r"shape \(3,\)", r"\(N, C, H, W\)"),
    "channels": (lambda: F.conv2d(IMAGE, KERNEL), ShapeError, "4 channels", "expects 2 channels"),
    "groups": (lambda: F.conv2d(IMAGE, KERNEL, groups=0), OptionError, "groups", "default is 1"),
    "bias": (lambda: F.conv2d(IMAGE, KERNEL, mg.ones(5), groups=2), ShapeError, r"\(5,\)", "6 output"),
    "large": (lambda: F.conv2d(IMAGE, KERNEL, groups=2, dilation=9), ShapeError, "spans 10", "Pad more"),
    "padding": (lambda: F.conv2d(IMAGE, KERNEL, groups=2, padding="some"), OptionError, '"same"', "Choose"),
    "same": (lambda: F.conv2d(IMAGE, KERNEL, None, 2, "same", 1, 2), OptionError, "stride 1", "numbers"),
    "stride": (lambda: F.conv2d(IMAGE, KERNEL, groups=2, stride=1.5), DtypeError, "stride", "int"),
    "strides": (lambda: F.conv2d(IMAGE, KERNEL, groups=2, stride=(1, 2, 3)), OptionError, "2 integers",
                "Pass"),
    "output_padding": (
        lambda: F.conv_transpose2d(IMAGE, mg.ones(4, 1, 2, 2), output_padding=2),
        OptionError, r"output_padding \(2, 2\)", "smaller",
    ),
    "nothing left": (lambda: F.conv_transpose1d(mg.ones(1, 1, 2), mg.ones(1, 1, 2), padding=2), ShapeError,
                     "size", "Pad less"),
    "layer": (lambda: nn.Conv2d(4, 6, 3, groups=4), OptionError, "groups, got 4", "divides both"),
    "fold": (lambda: F.fold(mg.ones(1, 8, 9), (5, 5), 2), ShapeError, r"\(1, 8, 9\)", r"4, 16\)"),
    "pool": (lambda: F.max_pool2d(mg.ones(3), 2), ShapeError, r"\(3,\)", "2 axes after C"),
    "wide padding": (lambda: F.max_pool2d(IMAGE, 2, padding=2), OptionError, "padding .* half", "Pad less"),
    "divisor": (lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0), OptionError, "not be 0", "None"),
    "adaptive": (lambda: F.adaptive_avg_pool2d(IMAGE, (1, 2, 3)), OptionError, "2 integers", "Pass"),
    "nothing": (lambda: F.adaptive_max_pool2d(mg.ones(1, 2, 0, 3), 1), ShapeError, "non-empty",
                "more elements"),
    "one element": (lambda: F.batch_norm(mg.ones(1, 2), None, None, training=True),
                    ShapeError, "one element", "layer_norm"),
    "statistics": (lambda: F.batch_norm(IMAGE, None, None), OptionError, "running_mean", "Pass them"),
    "shape of weight": (lambda: F.group_norm(IMAGE, 2, mg.ones(3)), ShapeError, r"got \(3,\)", "each"),
    "groups of a norm": (lambda: nn.GroupNorm(3, 4), OptionError, "num_groups, got 3", "divisor"),
    "dimensions": (lambda: nn.BatchNorm1d(4)(IMAGE), ShapeError, "BatchNorm1d", "2 or 3 axes"),
    "mode": (lambda: F.interpolate(IMAGE, 3, mode="cubic"), OptionError, "cubic", "Choose"),
    "linear of images": (lambda: F.interpolate(IMAGE, 3, mode="linear"), ShapeError, "linear", "3 axes"),
    "both sizes": (lambda: F.interpolate(IMAGE, 3, 2.0), OptionError, "either", "one of them"),
    "corners": (lambda: F.interpolate(IMAGE, 3, align_corners=True), OptionError, "corners", "out"),
    "pixels": (lambda: F.pixel_shuffle(IMAGE, 3), ShapeError, r"by 3 got shape \(2, 4, 5, 6\)", r"C \* 9"),
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "error", "what", "remedy"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_explained(mistake, error, what, remedy):
    with pytest.raises(error) as raised:
        mistake()
    first, second = str(raised.value).split("\n")
    assert re.search(what, first), first
    assert re.search(remedy, second), second


def test_max_unpool_takes_lengths_or_a_whole_shape():
    x = mg.ones(1, 2, 3)
    places = mg.tensor([[[0, 2, 4], [0, 2, 4]]])
    for size in ((6,), (1, 2, 6)):
        assert F.max_unpool1d(x, places, 2, output_size=size).shape == (1, 2, 6)
    with pytest.raises(OptionError, match=r"1 or 3 numbers, got \(2, 6\)"):
        F.max_unpool1d(x, places, 2, output_size=(2, 6))
