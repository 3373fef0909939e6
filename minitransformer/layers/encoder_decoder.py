"""Encoder and decoder layers, and their stacks (figure 1 of the paper).

Each sub-layer f has a residual connection with layer norm: norm(x + dropout(f(x))) as in the paper
(post-norm), or x + dropout(f(norm(x))) with `norm_first` (pre-norm, Xiong et al. 2020), in which case a final
norm follows the stack. Masks are True where a query may attend, and broadcast to (B, H, T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from itertools import repeat
from typing import Any

from jaxtyping import Float

from minigrad import Tensor, nn

from ..errors import UserError, counted
from .cache import Cache, LayerCache
from .config import ACTIVATIONS, GATED, LayerConfig
from .masks import masked_bias


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, the same at each position (section 3.3).

    With a gated activation, it is (activation(x W_1) * x W_3) W_2 (Shazeer 2020, equation 6).
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.d_model, config.d_ff, config.bias)
        self.linear2 = nn.Linear(config.d_ff, config.d_model, config.bias)
        gated = config.activation in GATED
        self.linear3 = nn.Linear(config.d_model, config.d_ff, config.bias) if gated else None
        self.dropout = nn.Dropout(config.activation_dropout)
        name = GATED.get(config.activation, config.activation)
        self.activation = name if callable(name) else ACTIVATIONS[name]
        for p in self.parameters():
            nn.init.xavier_uniform_(p) if p.ndim == 2 else nn.init.zeros_(p)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        h = self.activation(self.linear1(x))
        if self.linear3 is not None:
            h = h * self.linear3(x)
        return self.linear2(self.dropout(h))


class Residual(nn.Module):
    """A residual connection around a sub-layer f, with dropout and a norm.

    norm(x + dropout(f(x))), or x + dropout(f(norm(x))) with `norm_first`.
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = config.make_norm()
        self.dropout = nn.Dropout(config.dropout)
        self.norm_first = config.norm_first

    def forward(self, x: Float[Tensor, "B T D"], f: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        if self.norm_first:
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network; the layer of decoder-only models if `is_causal` is True."""

    def __init__(self, config: LayerConfig, is_causal: bool = False) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.self_attention = config.self_attention()
        self.feed_forward = FeedForward(config)
        self.residual1 = Residual(config)
        self.residual2 = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        kv_cache = None if cache is None else cache.self_attention
        x = self.residual1(x, lambda x: self.self_attention(x, None, mask, self.is_causal, kv_cache))
        return self.residual2(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output (`memory`), and a feed-forward network."""

    def __init__(self, config: LayerConfig, is_causal: bool = True) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.self_attention = config.self_attention()
        self.cross_attention = config.cross_attention()
        self.feed_forward = FeedForward(config)
        self.residual1 = Residual(config)
        self.residual2 = Residual(config)
        self.residual3 = Residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "B T D"]:
        kv_cache, cross = (None, None) if cache is None else (cache.self_attention, cache.cross_attention)
        x = self.residual1(x, lambda x: self.self_attention(x, None, mask, self.is_causal, kv_cache))
        x = self.residual2(x, lambda x: self.cross_attention(x, memory, memory_mask, False, cross))
        return self.residual3(x, self.feed_forward)


class _Stack(nn.Module):
    """Layers in sequence, followed by a final norm if they are pre-norm."""

    def __init__(self, layers: Sequence[nn.Module], config: LayerConfig, is_causal: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.positions = config.position_bias(is_causal)  # shared by the layers
        self.norm = config.make_norm() if config.norm_first else None

    @staticmethod
    def with_positions(positions: nn.Module, mask: Any, x: Tensor, cache: Cache | None) -> Tensor:
        """The position bias of the layers' scores, with -inf where the mask is False."""
        keys = x.shape[1] + (0 if cache is None else cache.length)
        bias = positions(x.shape[1], keys)  # (1, H, T, S)
        bias = bias if bias.device == x.device else bias.to(x.device)
        return masked_bias(bias, mask, x.shape[0])

    def with_caches(self, cache: Cache | None) -> Iterable[tuple[nn.Module, LayerCache | None]]:
        """Each layer with its cache, or with None if there is no cache."""
        if cache is None:
            return zip(self.layers.children(), repeat(None))
        if len(cache.layers) != len(self.layers):
            raise UserError(
                f"a cache of {counted(len(cache.layers), 'layer')} does not fit a model of "
                f"{len(self.layers)}.\n"
                f"Use the cache that the model's new_cache() returns."
            )
        return zip(self.layers.children(), cache.layers, strict=True)


class Encoder(_Stack):
    """A stack of encoder layers (section 3.1)."""

    def __init__(self, num_layers: int, config: LayerConfig, is_causal: bool = False) -> None:
        super().__init__([EncoderLayer(config, is_causal) for _ in range(num_layers)], config, is_causal)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        if self.positions is not None:
            mask = self.with_positions(self.positions, mask, x, cache)
        with cache or nullcontext():
            for layer, layer_cache in self.with_caches(cache):
                x = layer(x, mask, layer_cache)
        return x if self.norm is None else self.norm(x)


class Decoder(_Stack):
    """A stack of decoder layers (section 3.1)."""

    def __init__(self, num_layers: int, config: LayerConfig, is_causal: bool = True) -> None:
        super().__init__([DecoderLayer(config, is_causal) for _ in range(num_layers)], config, is_causal)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        memory_mask: Tensor | None = None,
        mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        if self.positions is not None:
            mask = self.with_positions(self.positions, mask, x, cache)
        with cache or nullcontext():
            for layer, layer_cache in self.with_caches(cache):
                x = layer(x, memory, memory_mask, mask, layer_cache)
        return x if self.norm is None else self.norm(x)
