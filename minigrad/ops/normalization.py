"""Normalization over features."""

from __future__ import annotations

from .record import composite


@composite
def layer_norm(x, weight, bias, /, normalized_shape, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias, over the last axes (Ba, Kiros and Hinton 2016, eq. 4).

    The variance divides by n, not n - 1. `weight` and `bias` have shape `normalized_shape`, or are None.
    """
    axes = tuple(range(-len(normalized_shape), 0))
    centred = x - x.mean(axes, keepdim=True)
    variance = (centred * centred).mean(axes, keepdim=True)
    y = centred / (variance + eps).sqrt()
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias
