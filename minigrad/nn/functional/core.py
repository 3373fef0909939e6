"""The functions of a Transformer, with PyTorch's signatures.

Each checks its arguments and calls the op of the same name. For valid arguments, the checks are one or two
comparisons.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from ...core import random
from ...core.arguments import cast_for_autocast
from ...core.dtypes import HALF, default_float, finfo, float32, is_floating, result_type
from ...core.error_context import describe
from ...core.errors import DtypeError, OptionError, RangeError, ShapeError, counted
from ...core.modes import modes, no_grad
from ...core.tensor import Tensor, as_tensor, as_tensor_like
from ...ops import activations, attention, indexing, linalg, losses, normalization
from ...ops.axes import as_floating
from ...ops.comparisons import where
from ...ops.norms import vector_norm
from ...ops.shaping import expand, permute, reshape


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input weightᵀ + bias: (..., in), (out, in), (out,) -> (..., out)."""
    try:
        shape = weight.array.shape
        fits = input.array.shape[-1:] == shape[1:] and (bias is None or bias.array.shape == shape[:1])
    except AttributeError:  # not all are tensors
        return linear(as_tensor(input), as_tensor(weight), None if bias is None else as_tensor(bias))
    if not fits:
        with_bias = "" if bias is None else f" and a bias of shape {bias.shape}"
        fix = "Pass an input (..., in), a weight (out, in) and a bias (out,)."
        if len(shape) == 2 and input.ndim and input.shape[-1] != shape[1]:
            fix = f"The last axis of the input must be {shape[1]}, got {input.shape[-1]}. {fix}"
        raise ShapeError(
            f"linear got an input of shape {input.shape} and a weight of shape {weight.shape}{with_bias}.\n"
            f"{fix}"
        )
    return linalg.linear(input, weight, bias)


def embedding(
    input: Any,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
) -> Tensor:
    """Look up the rows of `weight` (V, D) for the ids in `input`: (...) -> (..., D).

    Row `padding_idx` gets no gradient. An id outside the table raises an error on the CPU and gives NaN on a
    GPU, where a check would have to wait for the result. If `max_norm` is given, looked-up rows of `weight`
    with a larger norm (of order `norm_type`) are first scaled down to it in place. Under autocast, the result
    is rounded to its dtype, in which activations then stay.

    >>> table = mg.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> F.embedding(mg.tensor([2, 1]), table)
    tensor([[2., 2.],
            [1., 1.]])
    """
    weight = weight if isinstance(weight, Tensor) else as_tensor(weight)
    if max_norm is not None:
        if not weight.is_floating_point():
            raise DtypeError(
                f"max_norm needs a floating-point weight, got {weight.dtype}.\nPass weight.float()."
            )
        with no_grad():
            ids = as_tensor(input)
            wide = weight[ids].to(float32 if weight.dtype in HALF else weight.dtype)
            norms = vector_norm(wide, norm_type, -1, keepdim=True)
            scaled = wide * where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
            weight[ids] = scaled.to(weight.dtype)
    rows = cast_for_autocast("lower", indexing.embedding(weight, input))
    if padding_idx is None:
        return rows
    is_padding = as_tensor(input) == padding_row(padding_idx, weight.shape[0])
    return where(is_padding.unsqueeze(-1), rows.detach(), rows)


def padding_row(padding_idx: int | None, count: int) -> int | None:
    """Check the number of the padding row in a table of `count` rows, and return it counted from 0."""
    if not isinstance(padding_idx, int | np.integer | None):
        raise DtypeError(
            f"padding_idx must be an integer, got {describe(padding_idx)}.\nPass the row's number."
        )
    if padding_idx is None or -count <= padding_idx < count:
        return None if padding_idx is None else padding_idx % count
    raise RangeError(
        f"padding_idx {padding_idx} is out of range for a table of {counted(count, 'row')}.\n"
        f"Pass a number from {-count} to {count - 1}."
    )


def softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along `dim`, computed in `dtype` if it is not None.

    >>> F.softmax(mg.tensor([[0.0, 0.0], [0.0, 200.0]]), dim=-1)
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]])
    """
    return activations.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int = -1, dtype: Any = None) -> Tensor:
    """log(softmax(input)) along `dim`, computed in `dtype` if it is not None."""
    return activations.log_softmax(input, dim, dtype)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit; `approximate` is "none" (with erf) or "tanh"."""
    if approximate not in ("none", "tanh"):
        raise OptionError(f'approximate must be "none" or "tanh", got {approximate!r}.\nChoose one of them.')
    return activations.gelu(input, approximate)


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(input - mean) / sqrt(var + eps) * weight + bias over the last axes, of shape `normalized_shape`.

    >>> F.layer_norm(mg.tensor([[1.0, 2.0, 3.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    shape = _normalized_shape("layer_norm", input, normalized_shape, weight, bias)
    if _differ_in_dtype(input, weight, bias):
        input, weight, bias = _norm_operands(input, weight, bias)
    return normalization.layer_norm(input, weight, bias, shape, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """input / sqrt(mean(input**2) + eps) * weight over the last axes, of shape `normalized_shape`.

    By default, `eps` is the machine epsilon of the input's dtype.
    """
    shape = _normalized_shape("rms_norm", input, normalized_shape, weight)
    if eps is None:
        dtype = as_tensor(input).dtype
        eps = float(finfo(dtype if is_floating(dtype) else default_float).eps)
    if _differ_in_dtype(input, weight):
        input, weight = _norm_operands(input, weight)
    return normalization.rms_norm(input, weight, shape, eps)


def _differ_in_dtype(input: Any, weight: Any, bias: Any = None) -> bool:
    dtype = getattr(input, "dtype", None)
    differs = weight is not None and getattr(weight, "dtype", None) != dtype
    return differs or (bias is not None and getattr(bias, "dtype", None) != dtype)


def _norm_operands(*operands: Any) -> list[Any]:
    """Promote a norm's input and parameters; a 16-bit input takes float32 parameters, and gives 16 bits."""
    tensors = {i: as_tensor(x) for i, x in enumerate(operands) if x is not None}
    input, *parameters = tensors.values()
    if input.dtype not in HALF or any(p.dtype not in (float32, input.dtype) for p in parameters):
        dtype = result_type(*tensors.values())
        tensors = {i: x.to(dtype) for i, x in tensors.items()}
    return [tensors.get(i) for i in range(len(operands))]


def _normalized_shape(
    name: str, input: Tensor, shape: int | Sequence[int], weight: Any, bias: Any = None
) -> tuple[int, ...]:
    """Check that the last axes and the parameters have this shape, and return it as a tuple."""
    if type(shape) is not tuple:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        fits = (
            shape
            and input.array.shape[-len(shape) :] == shape
            and (weight is None or weight.array.shape == shape)
            and (bias is None or bias.array.shape == shape)
        )
    except AttributeError:  # not all are tensors
        tensors = [None if x is None else as_tensor(x) for x in (weight, bias)]
        return _normalized_shape(name, as_tensor(input), shape, *tensors)
    if not fits:
        shapes = [None if x is None else x.shape for x in (weight, bias)]
        raise ShapeError(
            f"{name} over {shape} got an input of shape {input.shape} and parameters of shapes {shapes}.\n"
            f"The input's last axes and the parameters must have the shape {shape}."
        )
    return shape


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability p and divide the others by 1 - p; do nothing unless `training`."""
    if not (type(p) is float and 0 <= p <= 1):
        check_probability(p)
    return activations.dropout(input, p, random.next_key("dropout")) if training and p else input


def may_be_in_place(function: Callable[..., Tensor], count: int | None = None) -> Callable[..., Tensor]:
    """Add an argument `inplace` to a function, with which the result is copied to the input.

    The new function takes the first `count` arguments of the old one, then `inplace`.
    """
    signature = inspect.signature(function)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = list(signature.parameters.values())[:count]
    count = len(parameters)
    inplace = inspect.Parameter("inplace", kind, default=False, annotation=bool)

    @wraps(function)
    def wrapper(*args: Any, inplace: bool = False, **settings: Any) -> Tensor:
        if len(args) > count:
            *args, inplace = args  # type: ignore[assignment]
        result = function(*args, **settings)
        if not inplace:
            return result
        x = args[0] if args else settings["input"]
        if type(inplace) is not bool or not isinstance(x, Tensor):
            raise DtypeError(
                f"{function.__name__} in place needs a tensor and inplace=True, got {type(x).__name__} and "
                f"inplace={inplace!r}.\nPass a tensor, or leave inplace out."
            )
        return x if result is x else x.copy_(result)

    wrapper.__signature__ = signature.replace(parameters=[*parameters, inplace])  # type: ignore[attr-defined]
    return wrapper


def check_probability(p: float) -> None:
    if not isinstance(p, int | float | np.number) or not 0 <= p <= 1:
        raise OptionError(f"p must be a probability from 0 to 1, got {p!r}.\nPass one in that range.")


def cross_entropy(
    input: Tensor,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the mean of -log softmax(input)[target].

    `input` is (N, V), (V,) or (N, V, d1, ...). `target` has the same shape without V, and contains class
    numbers from 0 to V - 1; others raise an error on the CPU and give NaN on a GPU. A floating-point target
    of the input's shape contains class probabilities. Targets equal to `ignore_index` are left out; this
    needs class numbers. With `label_smoothing` e, the target is (1 - e) one-hot + e / V. `weight` (V,)
    weights the classes, also in the mean. `reduction` is "mean", "sum" or "none".

    >>> logits = mg.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    >>> F.cross_entropy(logits, mg.tensor([0, 2]))
    tensor(0.1672)
    >>> F.cross_entropy(logits, mg.tensor([0, -100]))  # the second is ignored
    tensor(0.2395)
    """
    if reduction not in ("mean", "sum", "none"):
        losses.check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise OptionError(
            f"label_smoothing must be from 0 to 1, got {label_smoothing}.\nPass one in that range."
        )
    input = as_floating(input)
    target = as_tensor_like(target, input)
    weight = None if weight is None else losses.class_weights(weight, input)
    shape = target.array.shape
    expected = input.array.shape
    if shape == expected and target.is_floating_point():
        if ignore_index >= 0:
            raise OptionError(
                f"ignore_index={ignore_index} needs class numbers, but the target has probabilities.\n"
                f"Leave ignore_index out, or pass class numbers as the target."
            )
        return losses.soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if len(expected) != 2 or shape != expected[:1] or target.dtype.kind not in "iu":
        target = losses.class_numbers("cross_entropy", input, target)
    if weight is not None:
        return losses.weighted_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    dtype = float32 if modes.autocast_dtype is not None and input.dtype in HALF else None
    if input.ndim == 2:
        return losses.cross_entropy(input, target, ignore_index, reduction, label_smoothing, dtype)
    if input.ndim > 2:  # (N, V, d1, ...) -> (N, d1, ..., V)
        input = permute(input, 0, *range(2, input.ndim), 1)
    rows = reshape(input, -1, input.shape[-1])
    loss = losses.cross_entropy(rows, reshape(target, -1), ignore_index, reduction, label_smoothing, dtype)
    return reshape(loss, target.shape) if reduction == "none" else loss


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ / sqrt(d_k)) value: (..., T, D), (..., S, D), (..., S, Dv) -> (..., T, Dv).

    "Attention Is All You Need", equation 1. A boolean `attn_mask`, broadcast to (..., T, S), is True where a
    query may attend; a floating-point one is added to the scores. A query that may attend to nothing gives
    zeros. If `enable_gqa` is True, each head of key and value (axis -3) serves a group of query heads
    (Ainslie et al. 2023).

    >>> q = k = v = mg.randn(1, 2, 4, 8)  # batch, heads, length, head size
    >>> F.scaled_dot_product_attention(q, k, v, is_causal=True).shape
    (1, 2, 4, 8)
    """
    if enable_gqa:
        key = _for_each_query_head(query, key)
        value = _for_each_query_head(query, value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ShapeError(
            f"attention needs at least 2 axes, (length, width), got query {query.shape}, key {key.shape} and "
            f"value {value.shape}.\nReshape them."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"attention got query {query.shape}, key {key.shape}, value {value.shape}.\n"
            f"Query and key must have the same last axis, key and value the same length (axis -2)."
        )
    mask = None if attn_mask is None else attention_mask(attn_mask, query)
    if mask is not None or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        _check_broadcast(query, key, value, mask)
    draw = _draw(dropout_p)
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    return attention.scaled_dot_product_attention(query, key, value, mask, is_causal, scale, dropout_p, draw)


def _check_broadcast(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raise a ShapeError if the axes before (length, width), or the mask and the scores, do not broadcast."""
    try:
        batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"attention got query {query.shape}, key {key.shape}, value {value.shape}: the axes before the "
            f"last two do not broadcast.\n{_advice_on_heads(query, key, value)}"
        ) from None
    scores = (*batch, query.shape[-2], key.shape[-2])
    try:
        fits = mask is None or np.broadcast_shapes(mask.shape, scores)[-2:] == scores[-2:]
    except ValueError:
        fits = False
    if mask is not None and not fits:
        raise ShapeError(
            f"attn_mask of shape {mask.shape} does not broadcast to the scores, {scores}.\n"
            f"Pass a mask that broadcasts to (..., queries, keys)."
        )


def _advice_on_heads(query: Tensor, key: Tensor, value: Tensor) -> str:
    """Return the advice to pass `enable_gqa` if that is enough, else to change the shapes."""
    try:
        heads = query.shape[-3]
        kv_heads = key.shape[-3]
        np.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
        grouped = kv_heads == value.shape[-3] and kv_heads > 0 and heads % kv_heads == 0
    except (IndexError, ValueError):
        grouped = False
    if grouped:
        return f"For {heads} query heads on {kv_heads} heads of key and value, pass enable_gqa=True."
    return "Pass all three with the same batch and heads."


def _draw(dropout_p: float) -> Any:
    """Return the random key for dropout on the attention weights, or None without dropout."""
    if not (type(dropout_p) is float and 0 <= dropout_p <= 1):
        check_probability(dropout_p)
    return random.next_key("dropout") if dropout_p else None


def attention_mask(mask: Any, query: Tensor) -> Tensor:
    """Return the mask as a tensor on the query's device, boolean (True = may attend) or of its dtype."""
    if not isinstance(mask, Tensor):
        mask = as_tensor_like(mask, query)
    if mask.is_floating_point():
        return mask.to(as_tensor(query).dtype)
    if mask.dtype != bool:
        raise DtypeError(
            f"attn_mask must be boolean or floating-point, got {mask.dtype}.\n"
            f"Pass booleans (True = may attend; mask != 0), or floats to add to the scores."
        )
    return mask


def _for_each_query_head(query: Tensor, heads: Tensor) -> Tensor:
    """Repeat each head of key or value for the query heads that it serves."""
    if query.ndim < 3 or heads.ndim < 3 or query.shape[-3] % heads.shape[-3]:
        raise ShapeError(
            f"grouped attention got query {query.shape} with key or value {heads.shape}.\n"
            f"The number of query heads (axis -3) must be a multiple of the others'."
        )
    *batch, count, length, width = heads.shape
    groups = expand(heads.unsqueeze(-3), *batch, count, query.shape[-3] // count, length, width)
    return reshape(groups, *batch, query.shape[-3], length, width)
