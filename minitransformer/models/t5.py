"""T5: every task as text to text (Raffel et al. 2020, "Exploring the Limits of Transfer Learning")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float

from minigrad import Tensor, nn

from ..base_config import Config, check_config
from ..errors import UserError, check_range, did_you_mean
from ..layers.cache import Cache
from ..layers.config import MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Decoder, Encoder
from ..layers.masks import check_same_batch, key_mask
from .encoder_decoder import EncoderDecoderModel

FEED_FORWARDS = {  # feed_forward_proj -> the activation of the layers
    "relu": "relu",  # T5
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "silu": "silu",
    "gated-gelu": "geglu_tanh",  # T5 1.1 (Shazeer 2020)
    "gated-gelu_python": "geglu",  # Hugging Face's name for the exact GELU
    "gated-silu": "swiglu",
}


@dataclass(frozen=True)
class T5Config(Config):
    """The settings of T5. The defaults are T5-small (sections 2.1 and 3.7), the names Hugging Face's."""

    vocab_size: int = 32128  # in a recipe, 0 means all tokens of the training data
    d_model: int = 512  # size of each token's vector
    d_kv: int = 64  # size of each head's queries, keys and values
    d_ff: int = 2048  # inner width of the feed-forward networks
    num_layers: int = 6  # number of encoder layers
    num_decoder_layers: int | None = None  # number of decoder layers; None: num_layers
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128  # all longer distances share a bucket
    dropout_rate: float = 0.1  # of embeddings, attention weights, sub-layer outputs, ...
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0  # factor of the standard deviations of the initial weights
    feed_forward_proj: str = "relu"  # activation of the feed-forward networks; T5 1.1 has "gated-gelu"
    tie_word_embeddings: bool = True  # whether the output layer shares the embedding's matrix; T5 1.1: False
    scale_decoder_outputs: bool | None = None  # by 1 / sqrt(d_model); None: only with tied embeddings
    pad_token_id: int = 0  # in a recipe, the tokenizer's
    eos_token_id: int = 1  # in a recipe, the tokenizer's
    decoder_start_token_id: int | None = None  # the first token of every target; None: the padding token

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_epsilon initializer_factor", 0)
        check_range(self, "d_model d_kv d_ff num_heads", 1)
        check_range(self, "relative_attention_num_buckets relative_attention_max_distance", 1)
        check_range(self, "num_layers", 1, MAX_LAYERS + 1)
        check_range(self, "num_decoder_layers", 1, MAX_LAYERS + 1)
        check_range(self, "dropout_rate", 0, 1)
        check_range(self, "pad_token_id eos_token_id", -(2**63))
        if self.feed_forward_proj not in FEED_FORWARDS:
            raise UserError(
                f"unknown feed_forward_proj {self.feed_forward_proj!r}."
                f"{did_you_mean(str(self.feed_forward_proj), FEED_FORWARDS)}\n"
                f"Choose one of {', '.join(FEED_FORWARDS)}."
            )

    @property
    def scales_outputs(self) -> bool:
        """Whether the decoder's last hidden states are multiplied by 1 / sqrt(d_model)."""
        scaled = self.scale_decoder_outputs
        return self.tie_word_embeddings if scaled is None else scaled


class T5(EncoderDecoderModel):
    """An encoder-decoder without position embeddings: a bias of the scores depends on the tokens' distance.

        model = T5(T5Config(vocab_size=1000))
        logits = model(source_ids, target_ids)      # (B, S), (B, T) -> (B, T, V)

    It differs from the Transformer of 2017 in four ways (section 2.1). A bias for each distance, which the
    layers of a stack share, replaces position embeddings. Sub-layers are pre-norm, with RMSNorm. No layer has
    a bias vector. Scores are not divided by sqrt(d_kv); the initial weights of queries are smaller instead.
    """

    model_type: ClassVar[str] = "t5"
    config_class: ClassVar[type] = T5Config
    max_length: ClassVar[int | None] = None  # no limit

    def __init__(self, config: T5Config, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        layer = LayerConfig(
            c.d_model, c.num_heads, c.d_ff, c.dropout_rate, c.dropout_rate, c.dropout_rate,
            FEED_FORWARDS[c.feed_forward_proj], norm_first=True, norm="rms_norm",
            layer_norm_eps=c.layer_norm_epsilon, bias=False, head_dim=c.d_kv, scale_scores=False,
            num_buckets=c.relative_attention_num_buckets,
            max_distance=c.relative_attention_max_distance, **{"positions": "t5", **parts},
        )  # fmt: skip
        self.embedding = TokenEmbedding(c.vocab_size, c.d_model, scale=False)
        self.dropout = nn.Dropout(c.dropout_rate)
        self.encoder = Encoder(c.num_layers, layer)
        self.decoder = Decoder(c.num_decoder_layers or c.num_layers, layer)
        self.output = None if c.tie_word_embeddings else nn.Linear(c.d_model, c.vocab_size, bias=False)
        self._initialize()

    def _initialize(self) -> None:
        """Draw matrices from a normal distribution, with variance 1 for embeddings, 1 / (fan-in d_kv) for
        projections to queries, and 1 / fan-in for others."""
        c = self.config
        deviations = {  # by the suffix of the name
            "embedding.weight": 1.0,
            "out_proj.weight": (c.num_heads * c.d_kv) ** -0.5,
            "linear2.weight": c.d_ff**-0.5,
        }
        for name, p in self.named_parameters():
            if p.ndim == 2:
                std = next((std for end, std in deviations.items() if name.endswith(end)), c.d_model**-0.5)
                nn.init.normal_(p, std=c.initializer_factor * std)
            if name.endswith("in_proj_weight"):
                nn.init.scale_(Tensor(p.array[: c.num_heads * c.d_kv]), c.d_kv**-0.5)

    @property
    def decoder_start_token_id(self) -> int:
        """The first token of every target."""
        start = self.config.decoder_start_token_id
        return self.config.pad_token_id if start is None else start

    def encode(self, source: Any, source_mask: Any = None) -> Float[Tensor, "B S D"]:
        """The encoder's hidden states of source ids (B, S).

        `source_mask` (B, S) is True for real tokens. It defaults to the padding mask.
        """
        x = self.dropout(self.embedding(source))
        mask = self.padding_mask(source) if source_mask is None else key_mask(source_mask, x)
        return self.dropout(self.encoder(x, mask))

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
        x = self.dropout(self.embedding(target))
        check_same_batch(x, memory)
        mask = key_mask(target_mask, x, 0 if cache is None else cache.length)
        return self.dropout(self.decoder(x, memory, key_mask(source_mask, memory), mask, cache))

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state.

        With `config.scales_outputs`, states are scaled by 1 / sqrt(d_model), as embeddings have variance 1.
        """
        if self.config.scales_outputs:
            states = states * self.config.d_model**-0.5
        return self.embedding.logits(states) if self.output is None else self.output(states)
