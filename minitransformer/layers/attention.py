"""Multi-head attention ("Attention Is All You Need", section 3.2.2)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.core import random
from minigrad.nn import functional as F

from . import attention_kernel  # noqa: F401 (registers a kernel: what multi_head_attention computes, faster)
from .attention_op import multi_head_attention, split_heads
from .cache import KeyValueCache, beams_as_queries, queries_as_beams
from .head_sizes import head_sizes
from .masks import check_same_batch, resolve_mask
from .relative_positions import RotaryScaling, rotary


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W_O, with head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i): 4 d² weights.

    W_Q, W_K and W_V of all heads are stacked in `in_proj_weight` (3 d_model, d_model), as in PyTorch's
    module, so that self-attention projects with one matmul. A mask is boolean, True = may attend.

    >>> from minitransformer import MultiHeadAttention, causal_mask
    >>> attention = MultiHeadAttention(d_model=16, num_heads=4)
    >>> attention(mg.randn(2, 5, 16), mask=causal_mask(5)).shape
    (2, 5, 16)
    """

    in_proj_bias: nn.Parameter | None

    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True, qkv_bias: bool = True,
        num_kv_heads: int | None = None, head_dim: int | None = None, scale_scores: bool = True,
        rope_theta: float | None = None, rope_scaling: RotaryScaling | None = None,
    ) -> None:  # fmt: skip
        """With fewer `num_kv_heads`, groups of heads share keys and values (Ainslie et al. 2023). With
        `rope_theta`, queries and keys are rotated by their positions. The other defaults are the paper's."""
        super().__init__()
        F.check_probability(dropout)
        self.d_model = d_model
        self.num_heads = num_heads
        self.dropout = dropout
        self.rope_theta = rope_theta
        self.rope_scaling = rope_scaling
        self.num_kv_heads, self.head_dim = head_sizes(d_model, num_heads, num_kv_heads, head_dim)
        self.scale = self.head_dim**-0.5 if scale_scores else 1.0
        q = num_heads * self.head_dim
        k = self.num_kv_heads * self.head_dim
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
        q, kv = self.project(query, memory, cache)
        q, mask = beams_as_queries(q, kv, mask)
        if mask is not None or past:
            mask, is_causal = resolve_mask(mask, is_causal, past, q, kv, self.num_heads)
        dropout = self.dropout if self.training else 0.0
        key = random.next_key("dropout") if dropout else None
        heads = multi_head_attention(
            q, kv, mask, self.num_heads, is_causal, dropout, key, self.num_kv_heads, self.scale
        )
        return self.out_proj(queries_as_beams(heads, query))

    def attention_weights(
        self, query: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, is_causal: bool = False
    ) -> Float[Tensor, "B H T S"]:
        """How much each query attends to each key, computed as attention with unit vectors as values."""
        q, k, _ = split_heads(*self.project(query, memory), self.num_heads, self.num_kv_heads)
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, 1)
        unit = mg.eye(k.shape[-2], dtype=k.dtype, device=k.device)
        return F.scaled_dot_product_attention(q, k, unit, mask, is_causal=is_causal, scale=self.scale)

    def project(
        self, query: Tensor, memory: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """x Wᵀ + b of all heads: q (B, T, D) and kv (B, S, 2 D), the keys and values side by side.

        Self-attention without a cache returns all three packed, (B, T, 3 D), and None: one matmul, no copies.
        """
        if memory is None:
            qkv = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            if self.rope_theta is not None:
                past = 0 if cache is None else cache.length
                heads = self.num_heads + self.num_kv_heads
                qkv = rotary(qkv, heads, self.head_dim, self.rope_theta, past, self.rope_scaling)
            if cache is None:
                return qkv, None
            return cache.append_packed(qkv, self.widths[0], self.num_kv_heads)
        check_same_batch(query, memory)
        q_weight, kv_weight = self.in_proj_weight.split(self.widths)
        q_bias, kv_bias = (None, None) if self.in_proj_bias is None else self.in_proj_bias.split(self.widths)
        q = F.linear(query, q_weight, q_bias)
        if cache is None:
            return q, F.linear(memory, kv_weight, kv_bias)
        if cache.length:
            return q, cache.read(q, self.num_kv_heads, self.head_dim)
        return q, cache.append(F.linear(memory, kv_weight, kv_bias), self.num_kv_heads)
