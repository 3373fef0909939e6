"""The settings of encoder and decoder layers, with the activations and norms to choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minigrad import Tensor, nn
from minigrad.nn import functional as F

from ..base_config import Config
from ..errors import UserError, check_choice, counted
from .attention import MultiHeadAttention
from .head_sizes import check_heads
from .positions import SCHEMES
from .relative_positions import ALiBi, RelativePositionBias, RotaryScaling

MAX_LAYERS = 1000  # with so many, a step takes seconds even if the layers are tiny

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
    """The settings of encoder and decoder layers. The defaults are the paper's, without dropout."""

    d_model: int
    num_heads: int
    d_ff: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: Any = "relu"  # a name in ACTIVATIONS or GATED (with a third matrix), or a function
    norm_first: bool = False
    layer_norm_eps: float = 1e-5
    norm: str = "layer_norm"  # "layer_norm" or "rms_norm" (Zhang and Sennrich 2019)
    bias: bool = True  # whether all linear layers have biases
    qkv_bias: bool = True  # whether the projections to queries, keys and values have biases
    num_kv_heads: int | None = None  # fewer than num_heads: grouped-query attention; None: num_heads
    head_dim: int | None = None  # None: d_model / num_heads
    scale_scores: bool = True  # whether scores are multiplied by 1 / sqrt(head_dim)
    # One of SCHEMES, of which layers apply "rotary", "alibi" and "t5", and models add the others to the
    # embeddings; or a function of num_heads and is_causal that returns a module like ALiBi.
    positions: Any = "none"
    rope_theta: float = 10000.0  # base of the frequencies of rotary positions
    rope_scaling: RotaryScaling | None = None  # lowers the frequencies of rotary positions
    num_buckets: int = 32  # for "t5": the number of buckets of distances
    max_distance: int = 128  # for "t5": longer distances share a bucket
    attention: Any = MultiHeadAttention  # or another class whose constructor takes the same arguments

    def __post_init__(self) -> None:
        check_heads(self, "d_model", "num_heads", "num_kv_heads", self.head_dim)
        if not callable(self.activation):
            check_choice("activation", self.activation, [*ACTIVATIONS, *GATED])
        check_choice("norm", self.norm, NORMS)
        if not callable(self.positions):
            check_choice("positions", self.positions, SCHEMES)
        head_dim = self.head_dim or self.d_model // self.num_heads
        if self.positions == "rotary" and head_dim % 2:
            origin = "" if self.head_dim else f" ({self.d_model} / {counted(self.num_heads, 'head')})"
            raise UserError(
                f"rotary positions need an even head_dim, got {head_dim}{origin}.\n"
                f"Choose an even head_dim, or another number of heads."
            )

    def self_attention(self) -> MultiHeadAttention:
        return self._attention(self.rope_theta if self.positions == "rotary" else None)

    def cross_attention(self) -> MultiHeadAttention:
        return self._attention(None)

    def _attention(self, rope_theta: float | None) -> MultiHeadAttention:
        return self.attention(
            self.d_model, self.num_heads, self.attention_dropout, self.bias, self.qkv_bias,
            self.num_kv_heads, self.head_dim, self.scale_scores, rope_theta, self.rope_scaling,
        )  # fmt: skip

    def make_norm(self) -> Any:
        return NORMS[self.norm](self.d_model, self.layer_norm_eps)

    def position_bias(self, is_causal: bool) -> nn.Module | None:
        """A module that computes the position bias of the scores in all layers of a stack, or None."""
        if callable(self.positions):
            return self.positions(self.num_heads, is_causal)
        if self.positions == "alibi":
            return ALiBi(self.num_heads)
        if self.positions == "t5":
            return RelativePositionBias(self.num_heads, self.num_buckets, self.max_distance, not is_causal)
        return None
