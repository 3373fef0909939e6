"""Token embeddings ("Attention Is All You Need", section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from minigrad import Tensor, nn
from minigrad.core.devices import as_array
from minigrad.core.tensor import as_tensor_like
from minigrad.nn import functional as F

from ..errors import UserError, check_integer


def token_ids(ids: Any) -> Int[Any, "B T"]:
    """Convert ids to an integer array (B, T). Raise a UserError for other shapes or dtypes."""
    try:
        array = as_array(ids.array if isinstance(ids, Tensor) else ids)
    except ValueError:
        raise UserError(
            "the sequences of a batch have different lengths.\nPad them to the same length."
        ) from None
    if array.ndim == 2 and not array.shape[1]:
        raise UserError(f"ids of shape {tuple(array.shape)} have no tokens.\nGive each row at least one.")
    if array.ndim != 2 or array.dtype.kind not in "iu":
        how = "Pass a single sequence as a batch of one: [ids]."
        if array.dtype.kind not in "iu":
            how = "Pass what the tokenizer's encode returns, or convert them with ids.astype(int)."
        raise UserError(
            f"token ids must be integers of shape (batch, length), got {array.dtype} {array.shape}.\n{how}"
        )
    return array


class TokenEmbedding(nn.Module):
    """A learned vector for each token, which `logits` also uses as the output layer (section 3.4).

    If `scale` is True, vectors are multiplied by sqrt(d_model). They are initialized with variance 1 /
    d_model, so that scaled vectors and the first logits have unit variance.
    """

    output_bias: nn.Parameter | None

    def __init__(self, vocab_size: int, d_model: int, scale: bool = True, output_bias: bool = False) -> None:
        super().__init__()
        check_integer("vocab_size", vocab_size, 1)
        self.weight = nn.Parameter(np.empty((vocab_size, d_model), np.float32))
        self.factor = math.sqrt(d_model) if scale else None
        nn.init.normal_(self.weight, std=d_model**-0.5)
        bias = nn.Parameter(np.zeros(vocab_size, np.float32)) if output_bias else None
        self.register_parameter("output_bias", bias)

    def extra_repr(self) -> str:
        bias = ", output_bias=True" if self.output_bias is not None else ""
        return "{}, {}, scale={}".format(*self.weight.shape, self.factor is not None) + bias

    def forward(self, ids: Any) -> Float[Tensor, "B T D"]:
        x = F.embedding(as_tensor_like(token_ids(ids), self.weight), self.weight)
        return x if self.factor is None else x * self.factor

    def logits(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The score of each token: x Eᵀ, the dot products with the token vectors, plus `output_bias`.

        If x is wider than the token vectors, because positions are concatenated, its first columns are used.
        """
        width = self.weight.array.shape[1]
        if x.array.shape[-1] > width:
            x = x[..., :width]
        return F.linear(x, self.weight, self.output_bias)
