"""Functions for neural networks, with PyTorch's names and signatures (torch.nn.functional)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.arguments import accept_aliases
from ...core.op import info_of, with_gradients
from ...core.registry import registry
from ...ops import one_hot, relu, sigmoid, silu, tanh
from ...ops.activations import logsigmoid
from ...ops.checked import check_all
from ...ops.losses import mse_loss
from ...ops.norms import normalize
from .core import (
    check_probability,
    cross_entropy,
    dropout,
    embedding,
    gelu,
    layer_norm,
    linear,
    log_softmax,
    may_be_in_place,
    padding_row,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
)

if TYPE_CHECKING:  # what `more` adds, for editors
    from ...more.functional import *

__all__ = ["embedding", "linear"]
listed = __all__  # to which `add` adds the other functions


def add(
    functions: Iterable[Callable[..., Any]], may_change: Iterable[str] = (), underscored: Iterable[str] = ()
) -> None:
    """Add functions to this module, with argument checks.

    Functions named in `may_change` get an argument `inplace`; those in `underscored` also get an in-place
    variant such as `relu_`.
    """
    names = {function.__name__: function for function in functions}
    document(names.values())
    globals().update(names)
    listed.extend(names)
    check_all(globals(), set(names), accept_aliases)
    for name in may_change:
        globals()[name] = may_be_in_place(globals()[name], 2 if name == "elu" else None)
    for name in underscored:
        globals()[f"{name}_"] = partial(globals()[name], inplace=True)


def document(functions: Iterable[Callable[..., Any]]) -> None:
    """Add the gradients of the op of the same name to the docstring of each function that wraps an op."""
    for function in functions:
        op = registry.get(function.__name__)
        if op is not None and info_of(function) is None:
            with_gradients(function, op)


# `linear` and `embedding` run in every layer, so they check their arguments themselves
document((linear, embedding))
add(
    (
        cross_entropy, dropout, gelu, layer_norm, log_softmax, logsigmoid, mse_loss, normalize, one_hot,
        relu, rms_norm, scaled_dot_product_attention, sigmoid, silu, softmax, tanh,
    ),
    ("dropout", "relu", "silu"),
    ("relu",),
)  # fmt: skip
