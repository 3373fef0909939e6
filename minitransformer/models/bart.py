"""BART: a denoising autoencoder (Lewis et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, nn

from ..base_config import Config, check_config
from ..errors import check_choice, check_range
from ..layers.cache import Cache
from ..layers.config import ACTIVATIONS, GATED, MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Decoder, Encoder
from ..layers.head_sizes import check_heads
from ..layers.masks import check_same_batch, key_mask
from ..layers.positions import LearnedPositions
from .encoder_decoder import EncoderDecoderModel


@dataclass(frozen=True)
class BARTConfig(Config):
    """The settings of BART. The defaults are BART-large (section 2.1), the names Hugging Face's."""

    vocab_size: int = 50265  # in a recipe, 0 means all tokens of the training data
    max_position_embeddings: int = 1024  # the longest source, and the longest target
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096  # inner width of the feed-forward networks
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096  # inner width of the feed-forward networks
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    d_model: int = 1024  # size of each token's vector
    dropout: float = 0.1  # of embeddings and of sub-layer outputs
    attention_dropout: float = 0.0  # of attention weights
    activation_dropout: float = 0.0  # inside the feed-forward networks
    init_std: float = 0.02  # standard deviation of the initial weights
    scale_embedding: bool = False  # whether embeddings are multiplied by sqrt(d_model)
    pad_token_id: int = 1  # in a recipe, the tokenizer's
    bos_token_id: int = 0  # in a recipe, the tokenizer's
    eos_token_id: int = 2  # in a recipe, the tokenizer's
    decoder_start_token_id: int | None = None  # the first token of every target; None: the end token

    def __post_init__(self) -> None:
        check_range(self, "vocab_size init_std", 0)
        check_range(self, "d_model max_position_embeddings encoder_ffn_dim decoder_ffn_dim", 1)
        check_range(self, "encoder_attention_heads decoder_attention_heads", 1)
        check_range(self, "encoder_layers decoder_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout attention_dropout activation_dropout", 0, 1)
        check_range(self, "pad_token_id bos_token_id eos_token_id", -(2**63))
        check_heads(self, "d_model", "encoder_attention_heads")
        check_heads(self, "d_model", "decoder_attention_heads")
        check_choice("activation_function", self.activation_function, [*ACTIVATIONS, *GATED])


class BART(EncoderDecoderModel):
    """An encoder-decoder that learns to restore a text from a corrupted one.

        model = BART(BARTConfig(vocab_size=1000))
        logits = model(source_ids, target_ids)      # (B, S), (B, T) -> (B, T, V)

    It is the Transformer of 2017 with GELU and smaller initial weights (section 2.1). As in the authors'
    code, positions are learned, and layer norm is applied to the embeddings.
    """

    model_type: ClassVar[str] = "bart"
    config_class: ClassVar[type] = BARTConfig
    final_logits_bias: Tensor  # added to the logits; not trained, and zero unless loaded from a checkpoint

    def __init__(self, config: BARTConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        dropouts = (c.dropout, c.attention_dropout, c.activation_dropout)
        parts = {"activation": c.activation_function, **parts}
        encoder_layer = LayerConfig(
            c.d_model, c.encoder_attention_heads, c.encoder_ffn_dim, *dropouts, **parts
        )
        decoder_layer = LayerConfig(
            c.d_model, c.decoder_attention_heads, c.decoder_ffn_dim, *dropouts, **parts
        )
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model, c.scale_embedding)
        self.encoder_positions = LearnedPositions(c.max_position_embeddings, c.d_model)
        self.decoder_positions = LearnedPositions(c.max_position_embeddings, c.d_model)
        self.encoder_norm = nn.LayerNorm(c.d_model)
        self.decoder_norm = nn.LayerNorm(c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = Encoder(c.encoder_layers, encoder_layer)
        self.decoder = Decoder(c.decoder_layers, decoder_layer)
        self.register_buffer("final_logits_bias", Tensor(np.zeros(c.vocab_size, np.float32)))
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=c.init_std)

    @property
    def max_length(self) -> int:
        """The maximum length of a source, and of a target."""
        return self.config.max_position_embeddings

    @property
    def decoder_start_token_id(self) -> int:
        """The first token of every target."""
        start = self.config.decoder_start_token_id
        return self.config.eos_token_id if start is None else start

    def encode(self, source: Any, source_mask: Any = None) -> Float[Tensor, "B S D"]:
        """The encoder's hidden states of source ids (B, S).

        `source_mask` (B, S) is True for real tokens. It defaults to the padding mask.
        """
        x = self.encoder_positions(self.embedding(source))
        mask = self.padding_mask(source) if source_mask is None else key_mask(source_mask, x)
        return self.encoder(self.dropout(self.encoder_norm(x)), mask)

    def decode(
        self,
        target: Any,
        memory: Float[Tensor, "B S D"],
        source_mask: Any = None,
        target_mask: Any = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's hidden states of target ids (B, T), given the encoder's states, `memory`.

        Pass the same `source_mask` as to `encode`; without it, padding in the memory is attended to.
        `target_mask` (B, past + T) is True for real tokens. With a `cache`, the ids follow the ids of earlier
        calls, and the keys and values of the memory are computed only in the first call.
        """
        past = 0 if cache is None else cache.length
        x = self.embedding(target)
        mask = key_mask(target_mask, x, past)
        x = self.decoder_positions(x, past, mask)
        x = self.dropout(self.decoder_norm(x))
        check_same_batch(x, memory)
        return self.decoder(x, memory, key_mask(source_mask, memory), mask, cache)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        logits = self.embedding.logits(states)
        return logits + self.final_logits_bias.to(logits.dtype)
