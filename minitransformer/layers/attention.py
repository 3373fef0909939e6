"""Multi-head attention ("Attention Is All You Need", section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, autocast, nn, no_grad
from minigrad.core import random
from minigrad.core.observers import unobserved
from minigrad.core.tensor import constant
from minigrad.kernels.heads import attention_of_heads
from minigrad.nn import functional as F
from minigrad.ops.activations import dropout

from .cache import KeyValueCache
from .head_sizes import head_sizes
from .masks import check_same_batch, resolve_mask
from .relative_positions import RotaryScaling, rotary


def attention_scores(
    q: Float[Tensor, "... T d"], k: Float[Tensor, "... S d"], mask: Tensor | None = None,
    scale: float | None = None, is_causal: bool = False,
) -> Float[Tensor, "... T S"]:  # fmt: skip
    """The scores Q Kᵀ / sqrt(d_k), which are -inf where a query may not attend.

    A boolean mask is True where a query may attend. A floating-point mask is added to the scores.
    """
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        earlier = constant(np.tri(*scores.shape[-2:], dtype=np.bool_), scores)
        scores = scores.masked_fill(~earlier, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == bool else scores + mask


def attention_weights(
    q: Float[Tensor, "... T d"], k: Float[Tensor, "... S d"], mask: Tensor | None = None,
    scale: float | None = None, is_causal: bool = False,
) -> Float[Tensor, "... T S"]:  # fmt: skip
    """softmax(Q Kᵀ / sqrt(d_k)), equation 1 without V: how much each query attends to each key.

    The weights of a query that may not attend to any key are zero.
    """
    scores = attention_scores(q, k, mask, scale, is_causal)
    nothing = (scores == -math.inf).all(-1, keepdim=True)
    return scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)


@attention_of_heads  # a kernel that computes the same values in tiles replaces this definition
def multi_head_attention(
    x, kv, mask, /, num_heads, is_causal=False, dropout_p=0.0, key=None, num_kv_heads=None, scale=None
):
    """softmax(Q Kᵀ / sqrt(d_k)) V of each head (equation 1), and Concat(head_1, ..., head_h).

    x (B, T, H d) holds the queries of H heads side by side, and kv (B, S, 2 G d) the keys and values of G
    heads. If kv is None, x (B, T, (H + 2 G) d) holds all three. kv may have fewer rows than x: the beams of a
    sentence share its row. The mask broadcasts to (B, H, T, S). Returns (B, T, H d).
    """
    q, k, v = split_heads(x, kv, num_heads, num_kv_heads or num_heads)
    weights = attention_weights(q, k, mask, scale, is_causal)
    if dropout_p:
        weights = dropout(weights, dropout_p, key)
    return merge_heads(weights @ v)


def split_heads(
    x: Float[Tensor, "B T _"], kv: Float[Tensor, "_ S _"] | None, num_heads: int, num_kv_heads: int
) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H S d"], Float[Tensor, "B H S d"]]:
    """The queries, keys and values of each head, from the packed arguments of `multi_head_attention`."""
    if kv is None:
        width = x.shape[-1] // (num_heads + 2 * num_kv_heads) * num_heads  # the queries' width
        x, kv = x.split([width, x.shape[-1] - width], -1)
    q = x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    k, v = (
        part.unflatten(-1, (num_kv_heads, -1))
        .transpose(1, 2)
        .repeat_interleave(num_heads // num_kv_heads, 1)  # groups of heads share keys and values
        .repeat_interleave(len(x) // len(kv), 0)  # beams share a memory
        for part in kv.chunk(2, -1)
    )
    return q, k, v


def merge_heads(heads: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T D"]:
    """Concatenate the heads of each token."""
    return heads.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W_O, with head_i = Attention(Q W_Q_i, K W_K_i, V W_V_i): 4 d² weights.

    W_Q, W_K and W_V of all heads are stacked in `in_proj_weight` (3 d_model, d_model), as in PyTorch's
    module, so that self-attention projects with one matmul. `attention_scores` describes the masks.

    >>> from minitransformer import MultiHeadAttention
    >>> attention = MultiHeadAttention(d_model=16, num_heads=4)
    >>> attention(mg.randn(2, 5, 16), is_causal=True).shape
    (2, 5, 16)
    """

    in_proj_bias: nn.Parameter | None

    def __init__(
        self, d_model: int, num_heads: int, dropout: float = 0.0, bias: bool = True, qkv_bias: bool = True,
        num_kv_heads: int | None = None, head_dim: int | None = None, scale_scores: bool = True,
        rope_theta: float | None = None, rope_scaling: RotaryScaling | None = None,
    ) -> None:  # fmt: skip
        """The defaults are the paper's. With fewer `num_kv_heads`, groups of heads share keys and values
        (Ainslie et al. 2023). If `rope_theta` is given, queries and keys are rotated by their positions."""
        super().__init__()
        F.check_probability(dropout)
        self.d_model = d_model
        self.num_heads = num_heads
        self.dropout = dropout
        self.rope_theta = rope_theta
        self.rope_scaling = rope_scaling
        self.num_kv_heads, self.head_dim = head_sizes(d_model, num_heads, num_kv_heads, head_dim)
        self.scale = self.head_dim**-0.5 if scale_scores else 1.0  # 1 / sqrt(d_k)
        q = num_heads * self.head_dim
        k = self.num_kv_heads * self.head_dim
        self.widths = q, 2 * k
        self.in_proj_weight = nn.Parameter(np.empty((q + 2 * k, d_model), np.float32))
        in_proj_bias = nn.Parameter(np.zeros(q + 2 * k, np.float32)) if bias and qkv_bias else None
        self.register_parameter("in_proj_bias", in_proj_bias)
        self.out_proj = nn.Linear(q, d_model, bias)
        self.record: Callable[[Tensor], None] | None = None  # called with each call's weights
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
        """Attend from `query` to itself, or to `memory` if there is one. `mask` broadcasts to (B, H, T, S).

        If `is_causal` is True, no token attends to a later one. With a `cache`, queries also attend to the
        tokens of earlier calls, and the keys and values of `memory` are computed only in the first call.
        """
        past = 0 if cache is None else cache.length
        x, kv = self.project(query, memory, cache)
        if mask is not None or past:  # kernels support is_causal only without cached tokens
            mask, is_causal = resolve_mask(mask, is_causal, past, x, kv, self.num_heads)
        if self.record is not None:
            with no_grad():
                self.record(self.weights(x, kv, mask, is_causal))
        return self.out_proj(self.attend(x, kv, mask, is_causal))

    def attend(self, x: Tensor, kv: Tensor | None, mask: Tensor | None, is_causal: bool) -> Tensor:
        """`multi_head_attention` of what `project` returns.

        A subclass that computes attention differently overrides this method and `weights`.
        """
        dropout = self.dropout if self.training else 0.0
        key = random.next_key("dropout") if dropout else None
        return multi_head_attention(
            x, kv, mask, self.num_heads, is_causal, dropout, key, self.num_kv_heads, self.scale
        )

    def project(
        self, query: Tensor, memory: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The queries (B, T, H d) of all heads, and their keys and values (B, S, 2 G d), side by side.

        Self-attention without a cache returns all three in one tensor (B, T, (H + 2 G) d), and None, which
        takes one matmul and no copies.
        """
        width, both = self.widths  # the width of the queries, and of keys and values together
        if memory is None:
            x = self.in_projection(query, slice(0, width + both))
            if self.rope_theta is not None:
                past = 0 if cache is None else cache.length
                heads = self.num_heads + self.num_kv_heads
                x = rotary(x, heads, self.head_dim, self.rope_theta, past, self.rope_scaling)
            if cache is None:
                return x, None
            q, kv = Tensor(x.array[..., :width]), Tensor(x.array[..., width:])  # a cache has no gradients
            return q, cache.append(kv, self.num_kv_heads)
        check_same_batch(query, memory)
        q = self.in_projection(query, slice(0, width))
        if cache is not None and cache.length:
            return q, cache.read(q, self.num_kv_heads, self.head_dim)
        kv = self.in_projection(memory, slice(width, width + both))
        return q, kv if cache is None else cache.append(kv, self.num_kv_heads)

    def in_projection(self, x: Float[Tensor, "B T D"], rows: slice) -> Float[Tensor, "B T _"]:
        """x Wᵀ + b, where W and b are `rows` of `in_proj_weight` and `in_proj_bias`."""
        if rows.stop - rows.start == len(self.in_proj_weight.array):
            return F.linear(x, self.in_proj_weight, self.in_proj_bias)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[rows]
        return F.linear(x, self.in_proj_weight[rows], bias)

    def weights(
        self, x: Tensor, kv: Tensor | None, mask: Tensor | None, is_causal: bool
    ) -> Float[Tensor, "B H T S"]:
        """The attention weights of all heads, for recording, in float32 or float64.

        The arguments are what `project` and `resolve_mask` return.
        """
        with autocast(enabled=False), unobserved():
            q, k, _ = split_heads(x, kv, self.num_heads, self.num_kv_heads)
            q, k = (heads if heads.dtype.itemsize >= 4 else heads.float() for heads in (q, k))
            return attention_weights(q, k, mask, self.scale, is_causal)
