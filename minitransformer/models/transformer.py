"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from jaxtyping import Float

from minigrad import Tensor, nn

from ..base_config import Config, check_config
from ..errors import check_range
from ..layers.cache import Cache
from ..layers.config import MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Decoder, Encoder
from ..layers.head_sizes import check_heads
from ..layers.masks import check_same_batch, key_mask
from ..layers.positions import Positions, absolute_positions, check_concatenation
from .encoder_decoder import EncoderDecoderModel


@dataclass(frozen=True)
class TransformerConfig(Config):
    """The settings of the Transformer. The defaults are the base model of the paper (table 3).

    By default, source and target share a vocabulary, and both embeddings and the output layer share a matrix
    (section 3.4). The paper has neither `attention_dropout` nor `activation_dropout`.
    """

    vocab_size: int  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    d_model: int = 512  # size of each token's vector
    num_heads: int = 8
    d_ff: int = 2048  # inner width of the feed-forward networks
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1  # of embeddings and of sub-layer outputs
    attention_dropout: float = 0.0  # of attention weights
    activation_dropout: float = 0.0  # inside the feed-forward networks
    activation: str = "relu"  # "relu", "gelu", "gelu_new", "silu", "swiglu" or "geglu"
    norm_first: bool = False  # pre-norm: x + f(norm(x)), not norm(x + f(x)), and a norm after each stack
    positions: str = "sinusoidal"  # "sinusoidal", "none", "learned", "rotary", "alibi" or "t5"
    max_positions: int = 512  # for learned positions; sinusoidal ones have no limit
    scale_embeddings: bool = True  # whether embeddings are multiplied by sqrt(d_model) (section 3.4)
    layer_norm_eps: float = 1e-5
    pad_token_id: int = 0  # in a recipe, the tokenizer's
    bos_token_id: int = 2  # in a recipe, the tokenizer's
    eos_token_id: int = 3  # in a recipe, the tokenizer's
    target_vocab_size: int | None = None  # size of a separate target vocabulary; None: one for both
    tie_embeddings: bool = True  # whether the output layer shares the target embedding's matrix
    output_bias: bool = False  # whether the output layer has a bias
    concatenate_positions: bool = False  # concatenate positions (half of d_model) instead of adding them
    rope_theta: float = 10000.0  # base of the frequencies of rotary positions
    norm: str = "layer_norm"  # "layer_norm" or "rms_norm"
    bias: bool = True  # whether linear layers have biases
    num_kv_heads: int | None = None  # heads of keys and values, for grouped-query attention; None: num_heads
    head_dim: int | None = None  # width of a head; None: d_model / num_heads
    embedding_dropout: float | None = None  # dropout of embeddings; None: the value of dropout
    is_causal: bool = True  # False: target tokens also attend to later ones; generation has no cache

    def __post_init__(self) -> None:
        check_range(self, "vocab_size target_vocab_size layer_norm_eps", 0)
        check_range(self, "d_model num_heads d_ff max_positions", 1)
        check_range(self, "num_encoder_layers num_decoder_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout attention_dropout activation_dropout embedding_dropout", 0, 1)
        check_range(self, "pad_token_id bos_token_id eos_token_id", -(2**63))
        check_heads(self, "d_model", "num_heads", "num_kv_heads", self.head_dim)
        check_concatenation(self.concatenate_positions, self.positions, "d_model", self.d_model)
        self.layer()

    def layer(self) -> LayerConfig:
        ours = {field.name for field in fields(self)}
        return LayerConfig(**{f.name: getattr(self, f.name) for f in fields(LayerConfig) if f.name in ours})


class Transformer(EncoderDecoderModel):
    """The Transformer: an encoder and a decoder (figure 1).

    Both embeddings and the output layer share a matrix, unless the configuration says otherwise.

        model = Transformer(TransformerConfig(vocab_size=1000))
        logits = model(source_ids, target_ids)      # (B, S), (B, T) -> (B, T, V)

    Logits t predict the token after target position t. Masks are True where a query may attend. Source
    padding (`pad_token_id`) is masked. Target padding needs no mask if it is on the right, where causal
    attention hides it.

    >>> from minitransformer import Transformer, TransformerConfig
    >>> config = TransformerConfig(vocab_size=20, d_model=16, num_heads=2, d_ff=32)
    >>> model = Transformer(config)
    >>> model(np.array([[5, 6, 7]]), np.array([[2, 8]])).shape  # of source and target
    (1, 2, 20)
    """

    model_type: ClassVar[str] = "transformer"
    config_class: ClassVar[type] = TransformerConfig

    def __init__(self, config: TransformerConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        self.embedding = self._embedding(c.vocab_size, c.target_vocab_size is None)
        size = c.target_vocab_size
        self.target_embedding = None if size is None else self._embedding(size, True)
        self.encoder_positions, self.decoder_positions = self._positions(), self._positions()
        self.dropout = nn.Dropout(c.dropout if c.embedding_dropout is None else c.embedding_dropout)
        layer = replace(c.layer(), **parts)
        self.encoder = Encoder(c.num_encoder_layers, layer)
        self.decoder = Decoder(c.num_decoder_layers, layer, c.is_causal)
        size = size or c.vocab_size
        self.output = None if c.tie_embeddings else nn.Linear(c.d_model, size, c.output_bias)

    def _embedding(self, vocab_size: int, is_output: bool) -> TokenEmbedding:
        c = self.config
        width = c.d_model - c.d_model // 2 if c.concatenate_positions else c.d_model
        has_bias = c.output_bias and c.tie_embeddings and is_output
        return TokenEmbedding(vocab_size, width, c.scale_embeddings, has_bias)

    def _positions(self) -> Positions:
        c = self.config
        return absolute_positions(c.positions, c.d_model, c.max_positions, c.concatenate_positions)

    @property
    def max_length(self) -> int | None:
        """The maximum number of positions; None: no limit."""
        return self.config.max_positions if self.config.positions == "learned" else None

    def encode(self, source: Any, source_mask: Any = None) -> Float[Tensor, "B S D"]:
        """The encoder's hidden states of source ids (B, S).

        `source_mask` (B, S) is True for real tokens. It defaults to the padding mask.
        """
        x = self.dropout(self.encoder_positions(self.embedding(source)))
        return self.encoder(x, self.padding_mask(source) if source_mask is None else key_mask(source_mask, x))

    def decode(
        self,
        target: Any,
        memory: Float[Tensor, "B S D"],
        source_mask: Any = None,
        target_mask: Any = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's hidden states of target ids (B, T), given the encoder's states, `memory`.

        Pass the same `source_mask` as to `encode`, such as self.padding_mask(source); without it, padding in
        the memory is attended to. `target_mask` (B, past + T) is False for padding, such as on the left of
        prefixes. With a `cache`, the ids follow the ids of earlier calls, and the keys and values of the
        memory are computed only in the first call.
        """
        start = 0 if cache is None else cache.length
        x = (self.target_embedding or self.embedding)(target)
        mask = key_mask(target_mask, x, start)
        x = self.dropout(self.decoder_positions(x, start, mask))
        check_same_batch(x, memory)
        return self.decoder(x, memory, key_mask(source_mask, memory), mask, cache)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        if self.output is not None:
            return self.output(states)
        return (self.target_embedding or self.embedding).logits(states)
