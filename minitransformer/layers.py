"""Encoder and decoder layers and their stacks (figure 1 of the paper).

Each sub-layer f has a residual connection with layer norm: norm(x + dropout(f(x))) as in the paper
(post-norm), or x + dropout(f(norm(x))) with `norm_first` (pre-norm, Xiong et al. 2020), where a final norm
follows the stack. Masks are boolean, True = may attend, and broadcast to (B, H, T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import repeat

from jaxtyping import Float

from minigrad import Tensor, nn
from minigrad.nn import functional as F

from .attention import MultiHeadAttention
from .cache import Cache, LayerCache
from .errors import UserError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),  # Hugging Face's name for the tanh form
}


@dataclass(frozen=True)
class LayerConfig:
    """The settings of encoder and decoder layers."""

    d_model: int
    num_heads: int
    d_ff: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"
    norm_first: bool = False
    layer_norm_eps: float = 1e-5

    def attention(self) -> MultiHeadAttention:
        return MultiHeadAttention(self.d_model, self.num_heads, self.attention_dropout)

    def norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.d_model, self.layer_norm_eps)


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, the same at each position (section 3.3)."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        if config.activation not in ACTIVATIONS:
            raise UserError(
                f"unknown activation {config.activation!r}.\nChoose one of {', '.join(ACTIVATIONS)}."
            )
        self.linear1 = nn.Linear(config.d_model, config.d_ff)
        self.linear2 = nn.Linear(config.d_ff, config.d_model)
        self.dropout = nn.Dropout(config.activation_dropout)
        self.activation = ACTIVATIONS[config.activation]
        for p in self.parameters():
            nn.init.xavier_uniform_(p) if p.ndim == 2 else nn.init.zeros_(p)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class Residual(nn.Module):
    """Around a sub-layer f: norm(x + dropout(f(x))), or x + dropout(f(norm(x))) with `norm_first`."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm, self.dropout = config.norm(), nn.Dropout(config.dropout)
        self.norm_first = config.norm_first

    def forward(self, x: Float[Tensor, "B T D"], f: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        if self.norm_first:
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward. With `is_causal`, the layer of a decoder-only model."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention, self.feed_forward = config.attention(), FeedForward(config)
        self.residual1, self.residual2 = Residual(config), Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        kv_cache = None if cache is None else cache.self_attention
        x = self.residual1(x, lambda x: self.self_attention(x, None, mask, is_causal, kv_cache))
        return self.residual2(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output (`memory`), feed-forward."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = config.attention(), config.attention()
        self.feed_forward = FeedForward(config)
        self.residual1, self.residual2, self.residual3 = Residual(config), Residual(config), Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        kv_cache, cross = (None, None) if cache is None else (cache.self_attention, cache.cross_attention)
        x = self.residual1(x, lambda x: self.self_attention(x, None, mask, True, kv_cache))
        x = self.residual2(x, lambda x: self.cross_attention(x, memory, memory_mask, False, cross))
        return self.residual3(x, self.feed_forward)


class _Stack(nn.Module):
    """N layers in sequence, with a final norm if they are pre-norm."""

    def __init__(self, layers: Sequence[nn.Module], config: LayerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = config.norm() if config.norm_first else None

    def with_caches(self, cache: Cache | None) -> Iterable[tuple[nn.Module, LayerCache | None]]:
        """Each layer with its cache, or None."""
        if cache is None:
            return zip(self.layers.children(), repeat(None))
        if len(cache.layers) != len(self.layers):
            raise UserError(
                f"a cache of {len(cache.layers)} layers does not fit a model of {len(self.layers)}.\n"
                f"Use the cache that the model's new_cache() returns."
            )
        return zip(self.layers.children(), cache.layers, strict=True)


class Encoder(_Stack):
    """N encoder layers (section 3.1)."""

    def __init__(self, num_layers: int, config: LayerConfig) -> None:
        super().__init__([EncoderLayer(config) for _ in range(num_layers)], config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        with cache or nullcontext():
            for layer, layer_cache in self.with_caches(cache):
                x = layer(x, mask, is_causal, layer_cache)
        return x if self.norm is None else self.norm(x)


class Decoder(_Stack):
    """N decoder layers (section 3.1)."""

    def __init__(self, num_layers: int, config: LayerConfig) -> None:
        super().__init__([DecoderLayer(config) for _ in range(num_layers)], config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        with cache or nullcontext():
            for layer, layer_cache in self.with_caches(cache):
                x = layer(x, memory, memory_mask, mask, layer_cache)
        return x if self.norm is None else self.norm(x)
