"""Llama: a decoder-only Transformer with the choices of 2023 (Touvron et al. 2023, "LLaMA: Open and Efficient
Foundation Language Models", section 2.2).

It differs from GPT in five settings: RMSNorm before each sub-layer (Zhang and Sennrich 2019), SwiGLU (Shazeer
2020), rotary positions (Su et al. 2021), no biases, and since Llama 2 grouped queries (Ainslie et al. 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from jaxtyping import Float

from minigrad import Tensor, nn

from ..base_config import Config, check_config
from ..errors import UserError, check_choice, check_range
from ..layers.cache import Cache
from ..layers.config import GATED, MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Encoder
from ..layers.head_sizes import check_heads
from ..layers.masks import key_mask
from ..layers.relative_positions import RotaryScaling

# hidden_act names the activation of the gate, since every feed-forward network of Llama is gated
GATES = {gate: gated for gated, gate in GATED.items()} | {"gelu_new": "geglu_tanh"}


@dataclass(frozen=True)
class LlamaConfig(Config):
    """The settings of Llama. The defaults are Llama 7B (table 2), the names Hugging Face's."""

    vocab_size: int = 32000  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    hidden_size: int = 4096  # size of each token's vector
    intermediate_size: int = 11008  # inner width of the feed-forward networks
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None  # for grouped-query attention; None: num_attention_heads
    head_dim: int | None = None  # width of a head; None: hidden_size / num_attention_heads
    hidden_act: str = "silu"  # the activation of the gate: "silu" is SwiGLU, "gelu" GEGLU
    max_position_embeddings: int = 2048  # the length used in training; rotary positions have no limit
    rope_theta: float = 10000.0  # base of the frequencies of rotary positions
    rope_type: str = "default"  # "default", or "linear" or "llama3", which lower frequencies for longer texts
    rope_factor: float = 1.0  # factor by which frequencies are lowered
    low_freq_factor: float = 1.0  # for "llama3": pairs with fewer turns in the original length are slowed
    high_freq_factor: float = 4.0  # for "llama3": pairs with more turns in the original length are not slowed
    original_max_position_embeddings: int = 8192  # for "llama3": the original length
    rms_norm_eps: float = 1e-6
    attention_dropout: float = 0.0  # of attention weights
    hidden_dropout: float = 0.0  # of embeddings and of sub-layer outputs; the paper has none
    tie_word_embeddings: bool = False  # whether the output layer shares the embedding's matrix
    initializer_range: float = 0.02  # standard deviation of the initial weights
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None

    positions: ClassVar[str] = "rotary"

    def __post_init__(self) -> None:
        check_range(self, "vocab_size rms_norm_eps initializer_range", 0)
        check_range(self, "hidden_size intermediate_size num_attention_heads max_position_embeddings", 1)
        check_range(self, "num_hidden_layers", 1, MAX_LAYERS + 1)
        check_range(self, "attention_dropout hidden_dropout", 0, 1)
        check_range(self, "rope_theta rope_factor original_max_position_embeddings", 1)
        check_range(self, "low_freq_factor", 0)
        check_choice("rope_type", self.rope_type, ("default", "linear", "llama3"))
        if not self.low_freq_factor < self.high_freq_factor < math.inf:
            raise UserError(
                f"high_freq_factor = {self.high_freq_factor} is not above low_freq_factor = "
                f"{self.low_freq_factor}.\n"
                f"Choose a greater high_freq_factor, such as Llama 3.1's 4.0 above 1.0."
            )
        check_heads(self, "hidden_size", "num_attention_heads", "num_key_value_heads", self.head_dim)
        check_choice("hidden_act", self.hidden_act, GATES)
        self.layer()

    def layer(self) -> LayerConfig:
        return LayerConfig(
            self.hidden_size, self.num_attention_heads, self.intermediate_size,
            self.hidden_dropout, self.attention_dropout, activation=GATES[self.hidden_act], bias=False,
            norm_first=True, norm="rms_norm", layer_norm_eps=self.rms_norm_eps,
            num_kv_heads=self.num_key_value_heads, head_dim=self.head_dim,
            positions=self.positions, rope_theta=self.rope_theta, rope_scaling=self.rope_scaling(),
        )  # fmt: skip

    def rope_scaling(self) -> RotaryScaling | None:
        """The scaling of the frequencies of rotary positions, or None if they are not scaled."""
        if self.rope_type == "llama3":
            turns = self.low_freq_factor, self.high_freq_factor
            return RotaryScaling(self.rope_factor, *turns, self.original_max_position_embeddings)
        return RotaryScaling(self.rope_factor) if self.rope_type == "linear" else None


class Llama(nn.Module):
    """Token embeddings, pre-norm causal layers with rotary positions, and an output layer.

    model(ids) maps ids (B, T) to logits (B, T, V), where logits t predict the token after position t.

    >>> from minitransformer import Llama, LlamaConfig
    >>> sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    >>> model = Llama(LlamaConfig(vocab_size=20, num_attention_heads=2, num_key_value_heads=1, **sizes))
    >>> model(np.array([[5, 6, 7]])).shape
    (1, 3, 20)
    """

    is_encoder_decoder: ClassVar[bool] = False
    model_type: ClassVar[str] = "llama"
    config_class: ClassVar[type] = LlamaConfig
    max_length: ClassVar[None] = None  # rotary positions have no limit

    def __init__(self, config: LlamaConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        self.embedding = TokenEmbedding(c.vocab_size, c.hidden_size, scale=False)
        self.dropout = nn.Dropout(c.hidden_dropout)
        self.layers = Encoder(c.num_hidden_layers, replace(c.layer(), **parts), is_causal=True)
        self.output = None if c.tie_word_embeddings else nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=c.initializer_range)

    def states(self, ids: Any, cache: Cache | None = None, mask: Any = None) -> Float[Tensor, "B T D"]:
        """The hidden states of ids (B, T), which follow the tokens in the `cache`.

        `mask` (B, past + T) is False for padding, on the left of shorter prompts.
        """
        x = self.dropout(self.embedding(ids))
        mask = key_mask(mask, x, 0 if cache is None else cache.length)
        return self.layers(x, mask, cache)

    def new_cache(self, max_length: int = 0) -> Cache:
        """An empty cache for decoding: each call of `states` with it continues the previous call's sequence.

        `max_length` is the initial capacity in tokens; the cache grows beyond it when needed.
        """
        return Cache(self.config.num_hidden_layers, max_length)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        return self.embedding.logits(states) if self.output is None else self.output(states)

    def forward(self, ids: Any, mask: Any = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.states(ids, None, mask))
