"""Encoder and decoder layers, their stacks, and what every model of two stacks has (figure 1 of the paper).

Each sub-layer f has a residual connection with layer norm: norm(x + dropout(f(x))) as in the paper
(post-norm), or x + dropout(f(norm(x))) with `norm_first` (pre-norm, Xiong et al. 2020), where a final norm
follows the stack. Masks are boolean, True = may attend, and broadcast to (B, H, T, S).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

from jaxtyping import Bool, Float

from minigrad import Tensor, nn
from minigrad.nn import functional as F

from .attention import MultiHeadAttention
from .cache import Cache, LayerCache
from .config import Config, check_heads
from .embeddings import TokenEmbedding, token_ids
from .errors import UserError, check_choice, counted
from .masks import is_not_padding, masked_bias
from .positions import SCHEMES, ALiBi, RelativePositionBias

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}
ACTIVATIONS["gelu_new"] = ACTIVATIONS["gelu_tanh"]  # Hugging Face's name
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}  # activation(x W_1) * x W_3
NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer_norm": nn.LayerNorm, "rms_norm": nn.RMSNorm}


@dataclass(frozen=True)
class LayerConfig(Config):
    """The settings of encoder and decoder layers. Each choice is a value; the defaults are the paper's."""

    d_model: int
    num_heads: int
    d_ff: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"  # of ACTIVATIONS, or of GATED, with a third matrix (Shazeer 2020)
    norm_first: bool = False
    layer_norm_eps: float = 1e-5
    norm: str = "layer_norm"  # "layer_norm" or "rms_norm" (Zhang and Sennrich 2019)
    bias: bool = True  # of all linear layers
    qkv_bias: bool = True  # of the projections to queries, keys and values
    num_kv_heads: int | None = None  # fewer than num_heads: grouped queries; None: as many
    head_dim: int | None = None  # None: d_model / num_heads
    scale_scores: bool = True  # by 1 / sqrt(head_dim)
    positions: str = "none"  # of SCHEMES; "rotary", "alibi" and "t5" are the layers', others the embeddings'
    rope_theta: float = 10000.0  # of rotary positions
    num_buckets: int = 32  # of T5's relative positions
    max_distance: int = 128  # likewise

    def __post_init__(self) -> None:
        check_heads(self, "d_model", "num_heads", "num_kv_heads", self.head_dim)
        check_choice("activation", self.activation, [*ACTIVATIONS, *GATED])
        check_choice("norm", self.norm, NORMS)
        check_choice("positions", self.positions, SCHEMES)
        head_dim = self.head_dim or self.d_model // self.num_heads
        if self.positions == "rotary" and head_dim % 2:
            origin = "" if self.head_dim else f" ({self.d_model} / {counted(self.num_heads, 'head')})"
            raise UserError(
                f"rotary positions rotate pairs, and the width of a head is odd: {head_dim}{origin}.\n"
                f"Choose an even head_dim, or another number of heads."
            )

    def self_attention(self) -> MultiHeadAttention:
        return self._attention(self.rope_theta if self.positions == "rotary" else None)

    def cross_attention(self) -> MultiHeadAttention:
        return self._attention(None)

    def _attention(self, rope_theta: float | None) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.d_model, self.num_heads, self.attention_dropout, self.bias, self.qkv_bias,
            self.num_kv_heads, self.head_dim, self.scale_scores, rope_theta,
        )  # fmt: skip

    def make_norm(self) -> Any:
        return NORMS[self.norm](self.d_model, self.layer_norm_eps)

    def position_bias(self, is_causal: bool) -> nn.Module | None:
        """What a stack adds to the scores of all its layers."""
        if self.positions == "alibi":
            return ALiBi(self.num_heads)
        if self.positions == "t5":
            return RelativePositionBias(self.num_heads, self.num_buckets, self.max_distance, not is_causal)
        return None


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, the same at each position (section 3.3).

    With a gated activation, (activation(x W_1) * x W_3) W_2 (Shazeer 2020, equation 6).
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.d_model, config.d_ff, config.bias)
        self.linear2 = nn.Linear(config.d_ff, config.d_model, config.bias)
        gated = config.activation in GATED
        self.linear3 = nn.Linear(config.d_model, config.d_ff, config.bias) if gated else None
        self.dropout = nn.Dropout(config.activation_dropout)
        self.activation = ACTIVATIONS[GATED.get(config.activation, config.activation)]
        for p in self.parameters():
            nn.init.xavier_uniform_(p) if p.ndim == 2 else nn.init.zeros_(p)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        h = self.activation(self.linear1(x))
        if self.linear3 is not None:
            h = h * self.linear3(x)
        return self.linear2(self.dropout(h))


class Residual(nn.Module):
    """Around a sub-layer f: norm(x + dropout(f(x))), or x + dropout(f(norm(x))) with `norm_first`."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm, self.dropout = config.make_norm(), nn.Dropout(config.dropout)
        self.norm_first = config.norm_first

    def forward(self, x: Float[Tensor, "B T D"], f: Callable[[Tensor], Tensor]) -> Float[Tensor, "B T D"]:
        if self.norm_first:
            return x + self.dropout(f(self.norm(x)))
        return self.norm(x + self.dropout(f(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward. With `is_causal`, the layer of a decoder-only model."""

    def __init__(self, config: LayerConfig, is_causal: bool = False) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.self_attention, self.feed_forward = config.self_attention(), FeedForward(config)
        self.residual1, self.residual2 = Residual(config), Residual(config)

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
    """Causal self-attention, attention to the encoder's output (`memory`), feed-forward."""

    def __init__(self, config: LayerConfig, is_causal: bool = True) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.self_attention, self.cross_attention = config.self_attention(), config.cross_attention()
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
        x = self.residual1(x, lambda x: self.self_attention(x, None, mask, self.is_causal, kv_cache))
        x = self.residual2(x, lambda x: self.cross_attention(x, memory, memory_mask, False, cross))
        return self.residual3(x, self.feed_forward)


class _Stack(nn.Module):
    """N layers in sequence, with a final norm if they are pre-norm."""

    def __init__(self, layers: Sequence[nn.Module], config: LayerConfig, is_causal: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.positions = config.position_bias(is_causal)  # shared by the layers
        self.norm = config.make_norm() if config.norm_first else None

    @staticmethod
    def with_positions(positions: nn.Module, mask: Any, x: Tensor, cache: Cache | None) -> Tensor:
        """The mask of the layers' scores, with the position bias added."""
        keys = x.shape[1] + (0 if cache is None else cache.length)
        bias = positions(x.shape[1], keys)  # (1, H, T, S)
        bias = bias if bias.device == x.device else bias.to(x.device)
        return masked_bias(bias, mask, x.shape[0])

    def with_caches(self, cache: Cache | None) -> Iterable[tuple[nn.Module, LayerCache | None]]:
        """Each layer with its cache, or None."""
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
    """N encoder layers (section 3.1)."""

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
    """N decoder layers (section 3.1)."""

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


class EncoderDecoderModel(nn.Module):
    """What Transformer, BART, T5 and Seq2Seq share. A subclass has `encode`, `decode` and `logits`."""

    is_encoder_decoder: ClassVar[bool] = True
    config: Any
    embedding: TokenEmbedding
    decoder: Any
    encode: Any
    decode: Any
    logits: Any

    @property
    def decoder_start_token_id(self) -> int:
        """The first token of every target."""
        return self.config.bos_token_id

    def padding_mask(self, source: Any) -> Bool[Tensor, "B 1 1 S"]:
        """True where the source ids (B, S) are not padding, on the model's device."""
        mask = Tensor(is_not_padding(token_ids(source), self.config.pad_token_id)[:, None, None])
        device = self.embedding.weight.device
        return mask if mask.device == device else mask.to(device)

    def new_cache(self, max_length: int = 0) -> Any:
        """An empty cache for decoding: each call of `decode` with it continues the targets of the last.

        `max_length` is the initial capacity; the cache grows beyond it when needed.
        """
        return Cache(len(self.decoder.layers), max_length)

    def forward(
        self, source: Any, target: Any, source_mask: Any = None, target_mask: Any = None
    ) -> Float[Tensor, "B T V"]:
        if source_mask is None:
            source_mask = self.padding_mask(source)
        memory = self.encode(source, source_mask)
        return self.logits(self.decode(target, memory, source_mask, target_mask))
