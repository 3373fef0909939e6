"""Multi-head attention ("Attention Is All You Need", section 3.2.2)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

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
        for matrix in (*np.split(self.in_proj_weight.data, 3), self.out_proj.weight.data):
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
        q, k, v = self._heads(query, memory)
        dropout = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)  # (B, H, T, D / H)
        joined = heads.transpose(1, 2).reshape(*query.shape)
        return self.out_proj(joined)

    def weights(
        self,
        query: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "B H T S"]:
        """How much each query attends to each key: attention over values that are unit vectors."""
        q, k, _ = self._heads(query, memory)
        unit = Tensor(np.eye(k.shape[-2], dtype=k.dtype))
        return F.scaled_dot_product_attention(q, k, unit, mask, is_causal=is_causal)

    def _heads(self, query: Tensor, memory: Tensor | None) -> list[Tensor]:
        """Q, K and V of all heads: each (B, H, length, D / H)."""
        d = self.d_model
        if memory is None:
            return self._project(query, self.in_proj_weight, self.in_proj_bias)
        q_weight, kv_weight = self.in_proj_weight.split([d, 2 * d])
        q_bias, kv_bias = self.in_proj_bias.split([d, 2 * d])
        return self._project(query, q_weight, q_bias) + self._project(memory, kv_weight, kv_bias)

    def _project(self, x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
        """x Wᵀ + b for each of the stacked matrices, split into heads: each (B, H, T, D / H)."""
        batch, length, d = x.shape
        number = len(weight) // d
        y = F.linear(x, weight, bias).reshape(batch, length, number, self.num_heads, d // self.num_heads)
        y = y.permute(2, 0, 3, 1, 4)  # (number, B, H, T, D / H)
        return list(y.unbind(0))

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
            if not past:
                cache.extend(self._projected(memory, slice(self.d_model, None)))
        if is_causal and past:  # the queries are the last positions, not the first
            is_causal = False
            mask = mask if length == 1 else combine(mask, causal_mask(length, past))
        q, k, v = map(Tensor, (projected[0], *cache.read()))
        heads = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal).numpy()
        return self.out_proj(Tensor(heads.swapaxes(1, 2).reshape(query.shape)))

    def _projected(self, x: Tensor, rows: slice | None = None) -> Float[np.ndarray, "number B H T Dh"]:
        """What `_project` gives, of all rows of the stacked matrices or of some, in one array."""
        weight: Tensor = self.in_proj_weight
        bias: Tensor = self.in_proj_bias
        if rows is not None:
            weight, bias = Tensor(weight.data[rows]), Tensor(bias.data[rows])
        y = F.linear(x, weight, bias).numpy()
        y = y.reshape(*x.shape[:2], -1, self.num_heads, self.d_model // self.num_heads)
        return y.transpose(2, 0, 3, 1, 4)
