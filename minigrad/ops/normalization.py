"""Normalization of each row to mean 0 and variance 1, over its features."""

from __future__ import annotations

from ..core.composites import composite
from ..core.costs import per_input
from .samplers import cases, real

__family__ = "normalization"


ROWS = {"normalized_shape": (3,), "eps": 1e-5}


@composite(
    promotes=(0,),
    samples=cases((real, 2, 3), (real, 3), (real, 3), **ROWS)
    | cases((real, 2, 2, 3), (real, 3), None, **ROWS)
    | cases((real, 2, 2, 3), None, (real, 2, 3), normalized_shape=(2, 3), eps=0.1)
    | cases((real, 4, 3), None, None, **ROWS),
    latex=(
        r"\frac{u - \operatorname{mean}(u) - h\,\operatorname{mean}(u\,h)}"
        r"{\sqrt{\operatorname{var}(x) + \epsilon}},\; u = g\,weight,\;"
        r" h = \frac{x - \operatorname{mean}(x)}{\sqrt{\operatorname{var}(x) + \epsilon}}",
        r"\textstyle\sum_{\text{rows}} g\,h",
        r"\textstyle\sum_{\text{rows}} g",
    ),
    flops=per_input(8),
)
def layer_norm(x, weight, bias, /, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias, over the last axes (Ba, Kiros and Hinton 2016, eq. 4).

    The variance divides by n, not n - 1. `weight` and `bias` have shape `normalized_shape`, or are None.
    With h = (x - mean) / sd and u = g weight, a gradient g gives (u - mean(u) - h mean(u h)) / sd for x,
    the sums of g h and of g over all rows for weight and bias.
    """
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(axes, keepdim=True)
    variance = (centred * centred).mean(axes, keepdim=True)
    y = centred / (variance + eps).sqrt()
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


@composite(
    promotes=(0,),
    samples=cases((real, 2, 3), (real, 3), **ROWS)
    | cases((real, 2, 2, 3), (real, 2, 3), normalized_shape=(2, 3), eps=0.1)
    | cases((real, 4, 3), None, **ROWS),
    latex=(
        r"\frac{u - h\,\operatorname{mean}(u\,h)}{\sqrt{\operatorname{mean}(x^2) + \epsilon}},\;"
        r" u = g\,weight,\; h = \frac{x}{\sqrt{\operatorname{mean}(x^2) + \epsilon}}",
        r"\textstyle\sum_{\text{rows}} g\,h",
    ),
    flops=per_input(5),
)
def rms_norm(x, weight, /, normalized_shape, eps):
    """x / sqrt(mean(x**2) + eps) * weight, over the last axes (Zhang and Sennrich 2019, eq. 4).

    With r = sqrt(mean(x**2) + eps), h = x / r and u = g weight, a gradient g gives
    (u - h mean(u h)) / r for x, the sum of g h over all rows for weight.
    """
    axes = tuple(range(-len(normalized_shape), 0))
    y = x / ((x * x).mean(axes, keepdim=True) + eps).sqrt()
    return y if weight is None else y * weight
