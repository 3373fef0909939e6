"""Multi-head attention ("Attention Is All You Need", section 3.2.2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.core import random
from minigrad.core.costs import Flops
from minigrad.core.devices import array_module
from minigrad.core.op import composite
from minigrad.kernels import kernels
from minigrad.nn import functional as F
from minigrad.ops.attention import scaled_dot_product_attention
from minigrad.ops.samplers import each, mask, real

from .cache import KeyValueCache, beams_as_queries
from .config import head_sizes
from .masks import check_same_batch, resolve_mask
from .positions import rotary


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W_O, with head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i): 4 d² weights.

    W_Q, W_K and W_V of all heads are stacked in `in_proj_weight` (3 d_model, d_model), as in PyTorch's
    module, so that self-attention projects with one matmul. A mask is boolean, True = may attend.
    """

    in_proj_bias: nn.Parameter | None

    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True, qkv_bias: bool = True,
        num_kv_heads: int | None = None, head_dim: int | None = None, scale_scores: bool = True,
        rope_theta: float | None = None,
    ) -> None:  # fmt: skip
        """Fewer `num_kv_heads`: groups of heads share keys and values (Ainslie et al. 2023). A `rope_theta`:
        queries and keys are rotated by their positions. The rest has the paper's values."""
        super().__init__()
        F.check_probability(dropout)
        self.d_model, self.num_heads, self.dropout, self.rope_theta = d_model, num_heads, dropout, rope_theta
        self.num_kv_heads, self.head_dim = head_sizes(d_model, num_heads, num_kv_heads, head_dim)
        self.scale = self.head_dim**-0.5 if scale_scores else 1.0
        q, k = num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        self.widths = q, 2 * k
        self.in_proj_weight = nn.Parameter(np.empty((q + 2 * k, d_model), np.float32))
        in_proj_bias = nn.Parameter(np.zeros(q + 2 * k, np.float32)) if bias and qkv_bias else None
        self.register_parameter("in_proj_bias", in_proj_bias)
        self.out_proj = nn.Linear(q, d_model, bias)
        for matrix in (*np.split(self.in_proj_weight.array, [q, q + k]), self.out_proj.weight.array):
            nn.init.xavier_uniform_(Tensor(matrix))
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attend from `query` to itself, or to `memory`; `mask` broadcasts to (B, H, T, S).

        With a `cache`, queries also attend to tokens of earlier calls; a `memory` is projected once.
        """
        past = 0 if cache is None else cache.length
        q, kv = self.project(query, memory, cache)  # (B, T, D) and (B, S, 2 D), or packed as (B, T, 3 D)
        shared = kv is not None and len(kv.array) < len(q.array)
        if shared:  # the beams of a sentence have one cached memory
            q, mask = beams_as_queries(q, kv, mask)
        if mask is not None or past:
            mask, is_causal = resolve_mask(mask, is_causal, past, q, kv, self.num_heads)
        dropout = self.dropout if self.training else 0.0
        key = random.next_key("dropout") if dropout else None
        settings = self.num_heads, is_causal, dropout, key, self.num_kv_heads, self.scale
        heads = multi_head_attention(q, kv, mask, *settings)  # (B, T, D)
        return self.out_proj(heads.reshape(*query.shape[:2], -1) if shared else heads)

    def attention_weights(
        self, query: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, is_causal: bool = False
    ) -> Float[Tensor, "B H T S"]:
        """How much each query attends to each key: attention whose values are unit vectors."""
        q, k, _ = split_heads(*self.project(query, memory), self.num_heads, self.num_kv_heads)
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, 1)
        unit = mg.eye(k.shape[-2], dtype=k.dtype, device=k.device)
        return F.scaled_dot_product_attention(q, k, unit, mask, is_causal=is_causal, scale=self.scale)

    def project(
        self, query: Tensor, memory: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """x Wᵀ + b of all heads: queries, keys and values packed in one; or queries, and keys with values."""
        if memory is None:
            qkv = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            if self.rope_theta is not None:
                past = 0 if cache is None else cache.length
                qkv = rotary(qkv, self.num_heads + self.num_kv_heads, self.head_dim, self.rope_theta, past)
            if cache is None:
                return qkv, None
            d, array = self.widths[0], qkv.array  # a cache means that no graph is recorded: slice the array
            return Tensor(array[..., :d]), cache.append(Tensor(array[..., d:]), self.num_kv_heads)
        check_same_batch(query, memory)
        q_weight, kv_weight = self.in_proj_weight.split(self.widths)
        q_bias, kv_bias = (None, None) if self.in_proj_bias is None else self.in_proj_bias.split(self.widths)
        q = F.linear(query, q_weight, q_bias)
        if cache is not None and cache.length:
            return q, cache.read(q, self.num_kv_heads, self.head_dim)
        kv = F.linear(memory, kv_weight, kv_bias)
        return q, kv if cache is None else cache.append(kv, self.num_kv_heads)


def split_heads(x: Any, kv: Any, num_heads: int, num_kv_heads: int | None = None) -> tuple[Any, Any, Any]:
    """Queries, keys and values of each head, (B, H, T, d), as views.

    They are packed in x (B, T, 3 D); or x (B, T, D) has the queries and kv (B, S, 2 D) keys and values.
    """
    kv_heads = num_kv_heads or num_heads
    if kv is None and kv_heads == num_heads:
        return tuple(_split(x, 3, num_heads))
    if kv is None:
        width = x.shape[2] // (num_heads + 2 * kv_heads) * num_heads
        x, kv = x[..., :width], x[..., width:]
    return (*_split(x, 1, num_heads), *_split(kv, 2, kv_heads))


def _split(x: Any, parts: int, num_heads: int) -> Any:
    """(B, T, parts H d) -> (parts, B, H, T, d)."""
    batch, length, width = x.shape
    x = x.reshape(batch, length, parts, num_heads, width // (parts * num_heads))
    return x.permute(2, 0, 3, 1, 4) if isinstance(x, Tensor) else x.transpose(2, 0, 3, 1, 4)


def _kernel(x, kv, mask, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None):
    """The kernel of `multi_head_attention`: the device's attention kernel, on views of the projections."""
    if mask is not None and mask.ndim == 4 and mask.shape[0] not in (1, x.shape[0]):
        return None  # the result has the mask's batch
    q, k, v = split_heads(x, kv, num_heads, num_kv_heads)
    groups = num_heads // k.shape[1]
    if groups > 1:  # of heads that share keys and values
        k, v = k.repeat(groups, 1), v.repeat(groups, 1)
    attend = getattr(kernels(x), "scaled_dot_product_attention", lambda *args: None)
    result = attend(q, k, v, mask, is_causal, scale or 1 / math.sqrt(q.shape[-1]), dropout_p, key)
    if result is None:
        return None  # the definition runs instead
    heads, pull = result
    empty = array_module(x).empty

    def gradient(g, needs):
        d_x, d_kv = empty(x.shape, x.dtype), None if kv is None else empty(kv.shape, kv.dtype)
        d_heads = split_heads(d_x, d_kv, num_heads, num_kv_heads)  # views that `pull` fills
        into = d_heads if groups == 1 else (d_heads[0], empty(k.shape, k.dtype), empty(v.shape, v.dtype))
        *_, d_mask = pull(_split(g, 1, num_heads)[0], (True, True, True, needs[2]), into)
        if groups > 1:
            for total, parts in zip(d_heads[1:], into[1:], strict=True):
                parts.reshape(len(g), -1, groups, *parts.shape[2:]).sum(2, out=total)
        return d_x, d_kv, d_mask

    return heads.swapaxes(1, 2).reshape(*x.shape[:2], num_heads * q.shape[-1]), gradient


def _flops(inputs, result, settings):
    batch, queries, width = result
    keys = queries if inputs[1] is None else inputs[1][1]
    return batch * queries * keys * (4 * width + 6 * settings["num_heads"])


_key = random.Key(0, 0, 0, 0)
_settings = {"num_heads": 2, "is_causal": False, "dropout_p": 0.0, "key": None}


@composite(
    promotes=(0, 1),
    kernel=_kernel,
    autocast="lower",
    family="attention",
    samples=each((real, 2, 3, 12), None, None, **_settings)
    | each((real, 2, 3, 12), None, None, **_settings | {"is_causal": True})
    | each((real, 2, 3, 4), (real, 2, 4, 8), (mask, 2, 1, 3, 4), **_settings)
    | each((real, 2, 3, 16), None, (mask, 2, 1, 1, 3), **_settings | {"num_heads": 4, "num_kv_heads": 2})
    | each((real, 1, 3, 12), None, (real, 3, 3), **_settings | {"dropout_p": 0.5, "key": _key}),
    latex=(r"(dQ,\, dK,\, dV) \text{ as of scaled dot-product attention}", r"(dK,\, dV)", r"dS"),
    flops=Flops("queries × keys × (4 × width + 6 × heads)", _flops),
)
def multi_head_attention(
    x, kv, mask, /, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None
):
    """Split into heads, attend, merge the heads.

    x (B, T, 3 D) is queries, keys and values packed; or x (B, T, D) is queries and kv (B, S, 2 D) keys and
    values, which may have fewer heads. D = heads × d. mask broadcasts to (B, heads, T, S). Returns (B, T, D).
    """
    q, k, v = split_heads(x, kv, num_heads, num_kv_heads)
    if k.shape[1] != num_heads:
        k, v = (heads.repeat_interleave(num_heads // num_kv_heads, 1) for heads in (k, v))
    scale = scale or 1 / math.sqrt(q.shape[-1])
    heads = scaled_dot_product_attention(q, k, v, mask, is_causal, scale, dropout_p, key)  # (B, heads, T, d)
    return heads.transpose(1, 2).flatten(-2)
