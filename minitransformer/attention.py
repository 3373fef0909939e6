"""Multi-head attention ("Attention Is All You Need", section 3.2.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.nn import functional as F

from .cache import KeyValueCache
from .errors import UserError
from .masks import causal_mask, combine


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W_O, with head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i): 4 d² weights.

    W_Q, W_K and W_V of all heads are stacked in `in_proj_weight` (3 d_model, d_model), as in PyTorch's
    module, so that self-attention projects with one product. A mask is boolean, True = may attend.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise UserError(
                f"d_model={d_model} does not split into {num_heads} heads.\nChoose a multiple of {num_heads}."
            )
        self.d_model, self.num_heads, self.dropout = d_model, num_heads, dropout
        self.in_proj_weight = nn.Parameter(np.empty((3 * d_model, d_model), np.float32))
        self.in_proj_bias = nn.Parameter(np.zeros(3 * d_model, np.float32))
        self.out_proj = nn.Linear(d_model, d_model)
        for matrix in (*np.split(self.in_proj_weight.array, 3), self.out_proj.weight.array):
            nn.init.xavier_uniform_(Tensor(matrix))
        for p in self.out_proj.parameters():
            if p.ndim == 1:
                nn.init.zeros_(p)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Attend from `query` to itself, or to `memory`; `mask` broadcasts to (B, H, T, S).

        With a `cache`, to what earlier calls have read as well; a `memory` is read in the first call only.
        """
        if cache is not None:
            return self._forward_with(cache, query, memory, mask, is_causal)
        projected, of_memory = self._projections(query, memory)
        dropout = self.dropout if self.training else 0.0
        heads = F.multi_head_attention(
            projected, of_memory, mask, dropout, is_causal, num_heads=self.num_heads
        )  # side by side again: (B, T, D)
        return self.out_proj(heads)

    def weights(
        self,
        query: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "B H T S"]:
        """How much each query attends to each key: attention over values that are unit vectors."""
        projected, of_memory = self._projections(query, memory)
        parts = projected.chunk(3, -1) if of_memory is None else (projected, *of_memory.chunk(2, -1))
        q, k = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts[:2])
        unit = mg.eye(k.shape[-2], dtype=k.dtype, device=k.device)
        return F.scaled_dot_product_attention(q, k, unit, mask, is_causal=is_causal)

    def _projections(self, query: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """x Wᵀ + b: Q, K and V side by side (B, T, 3 D); or Q (B, T, D), and K and V of `memory`."""
        if memory is None:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias), None
        d = self.d_model
        q_weight, kv_weight = self.in_proj_weight.split([d, 2 * d])
        q_bias, kv_bias = self.in_proj_bias.split([d, 2 * d])
        return F.linear(query, q_weight, q_bias), F.linear(memory, kv_weight, kv_bias)

    # ------------------------------------------------------------ with a cache: no graph, so plain arrays do

    def _forward_with(
        self, cache: KeyValueCache, query: Tensor, memory: Tensor | None, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """`forward` of what comes after the tokens in the cache."""
        past, length = cache.length, query.shape[1]
        if memory is None:
            projected = self._projected(query)
            cache.extend(projected[1:])
        else:
            projected = self._projected(query, slice(self.d_model))
            if past:
                cache.check(projected)
            else:
                cache.extend(self._projected(memory, slice(self.d_model, None)))
        if is_causal and past:  # the queries are the last positions, not the first
            is_causal = False
            mask = mask if length == 1 else combine(mask, causal_mask(length, past).to(query.device))
        q, k, v = map(Tensor, (projected[0], *cache.read()))
        heads = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal).array
        return self.out_proj(Tensor(heads.swapaxes(1, 2).reshape(query.shape)))

    def _projected(self, x: Tensor, rows: slice | None = None) -> Float[Any, "number B H T Dh"]:
        """What `_projections` gives, split into heads: of all rows of the stacked matrices, or of some."""
        weight: Tensor = self.in_proj_weight
        bias: Tensor = self.in_proj_bias
        if rows is not None:
            weight, bias = Tensor(weight.array[rows]), Tensor(bias.array[rows])
        y = F.linear(x, weight, bias).array
        y = y.reshape(*x.shape[:2], len(bias) // self.d_model, self.num_heads, self.d_model // self.num_heads)
        return y.transpose(2, 0, 3, 1, 4)
