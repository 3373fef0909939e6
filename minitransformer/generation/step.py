"""One new token through a model with a cache, in plain arrays: the kernels in the order of the layers.

Where nothing is recorded, modules and ops add only their calls, and for one token those take longer than the
arithmetic. So the functions here do what the modules of the same names do, without them; tests hold both
together. `can_step` says where the modules themselves must be asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor, fused, nn
from minigrad.autograd import grad_mode, watch
from minigrad.devices import on_cpu
from minigrad.kernels import kernels

from ..attention import MultiHeadAttention
from ..cache import Cache, KeyValueCache, LayerCache
from ..embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from ..layers import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, Residual
from ..models import GPT, Transformer

KNOWN = {
    GPT, Transformer, Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, LearnedPositions,
    MultiHeadAttention, Residual, SinusoidalPositions, TokenEmbedding, nn.Dropout, nn.LayerNorm, nn.Linear,
    nn.ModuleList,
}  # fmt: skip

Rows = Float[Any, "B _"]


def can_step(model: GPT | Transformer) -> bool:
    """Whether `step` does what modules do: our classes, fused kernels, one dtype, no autocast, no hooks."""
    one_dtype = grad_mode.autocast is None and len({p.dtype for p in model.parameters()}) == 1
    array = next(model.parameters()).array
    has_kernels = array.itemsize > 2 and hasattr(kernels(array), "scaled_dot_product_attention")
    plain = one_dtype and has_kernels and fused.is_enabled() and not watch.on
    return plain and all(
        type(m) in KNOWN and not (m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m))
        for m in model.modules()
    )


def step(
    model: GPT | Transformer, ids: Int[np.ndarray, " B"], cache: Cache, source_mask: Tensor | None = None
) -> Float[np.ndarray, "B V"]:
    """The logits for what follows on `ids`, a token a row, which follow on those that the cache holds."""
    table = model.embedding.weight.array
    x = table[ids] if model.embedding.factor is None else table[ids] * model.embedding.factor
    positions: Any = model.positions if isinstance(model, GPT) else model.decoder_positions
    stack: Any = model.layers if isinstance(model, GPT) else model.decoder
    mask = None if source_mask is None else source_mask.array
    x = positions(Tensor(x[:, None]), cache.length).array[:, 0]
    k = kernels(x)
    with cache:
        for layer, read in stack.with_caches(cache):
            x = one_layer(k, layer, x, read, mask)
    x = x if stack.norm is None else norm(k, stack.norm, x)
    return on_cpu(k.linear(x, table, None)[0])


def one_layer(k: Any, layer: Any, x: Rows, read: LayerCache, mask: Any) -> Rows:
    x = residual(k, layer.residual1, x, lambda x: self_attention(k, layer.self_attention, x, read))
    if not isinstance(layer, DecoderLayer):
        return residual(k, layer.residual2, x, lambda x: feed_forward(k, layer.feed_forward, x))
    x = residual(k, layer.residual2, x, lambda x: cross_attention(k, layer.cross_attention, x, read, mask))
    return residual(k, layer.residual3, x, lambda x: feed_forward(k, layer.feed_forward, x))


def residual(k: Any, module: Residual, x: Rows, f: Callable[[Rows], Rows]) -> Rows:
    if module.norm_first:
        return x + f(norm(k, module.norm, x))
    return norm(k, module.norm, x + f(x))


def norm(k: Any, module: Any, x: Rows) -> Rows:
    return k.layer_norm(x, module.weight.array, module.bias.array, module.normalized_shape, module.eps)[0]


def linear(k: Any, module: Any, x: Rows) -> Rows:
    return k.linear(x, module.weight.array, None if module.bias is None else module.bias.array)[0]


def feed_forward(k: Any, module: FeedForward, x: Rows) -> Rows:
    return linear(k, module.linear2, module.activation(Tensor(linear(k, module.linear1, x))).array)


def self_attention(k: Any, module: MultiHeadAttention, x: Rows, read: LayerCache) -> Rows:
    """The new token's keys and values go to the others in the cache; its queries attend to them all."""
    projected = k.linear(x, module.in_proj_weight.array, module.in_proj_bias.array)[0]
    heads = projected.reshape(len(x), 3, module.num_heads, 1, -1).swapaxes(0, 1)  # (3, B, H, 1, D / H)
    read.self_attention.extend(heads[1:])
    return attend(k, module, heads[0], read.self_attention, None)


def cross_attention(k: Any, module: MultiHeadAttention, x: Rows, read: LayerCache, mask: Any) -> Rows:
    """Queries to the keys and values of the encoder's output, which the cache has since the first token."""
    d = module.d_model
    projected = k.linear(x, module.in_proj_weight.array[:d], module.in_proj_bias.array[:d])[0]
    queries = projected.reshape(len(x), module.num_heads, 1, -1)  # (B, H, 1, D / H)
    return attend(k, module, queries, read.cross_attention, mask)


def attend(k: Any, module: MultiHeadAttention, queries: Any, cache: KeyValueCache, mask: Any) -> Rows:
    keys, values = cache.read()
    scale = 1 / math.sqrt(queries.shape[-1])
    heads = k.scaled_dot_product_attention(queries, keys, values, mask, False, scale, 0.0, None)[0]
    return linear(k, module.out_proj, heads.reshape(len(queries), module.d_model))
