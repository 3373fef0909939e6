"""GPT: the Transformer's decoder without an encoder (Radford et al. 2018, 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from jaxtyping import Float

from minigrad import Tensor, nn

from ..base_config import Config, check_config
from ..errors import check_range
from ..layers.cache import Cache
from ..layers.config import MAX_LAYERS, LayerConfig
from ..layers.embeddings import TokenEmbedding
from ..layers.encoder_decoder import Encoder
from ..layers.head_sizes import check_heads
from ..layers.masks import key_mask
from ..layers.positions import absolute_positions, check_concatenation


@dataclass(frozen=True)
class GPTConfig(Config):
    """The settings of GPT. The defaults are the smallest GPT-2 (Radford et al. 2019), the names Hugging
    Face's."""

    vocab_size: int = 50257  # in a recipe, 0 means all tokens of the training data (8,000 for "bpe")
    n_positions: int = 1024  # maximum sequence length
    n_embd: int = 768  # size of each token's vector
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # inner width of the feed-forward networks; None: 4 n_embd
    embd_pdrop: float = 0.1  # dropout of embeddings
    resid_pdrop: float = 0.1  # dropout of sub-layer outputs
    attn_pdrop: float = 0.1  # dropout of attention weights
    activation_function: str = "gelu_new"  # "gelu_new", "relu", "gelu", "silu", "swiglu" or "geglu"
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02  # standard deviation of the initial weights
    pad_token_id: int | None = None
    eos_token_id: int | None = None  # the token that ends a text, if any
    positions: str = "learned"  # "learned", "none", "sinusoidal", "rotary", "alibi" or "t5"
    concatenate_positions: bool = False  # concatenate positions (half of n_embd) instead of adding them
    rope_theta: float = 10000.0  # base of the frequencies of rotary positions
    norm: str = "layer_norm"  # "layer_norm" or "rms_norm"
    norm_first: bool = True  # pre-norm, as in GPT-2; False: post-norm, as in GPT-1
    bias: bool = True  # whether linear layers have biases
    n_kv_head: int | None = None  # heads of keys and values, for grouped-query attention; None: n_head
    head_dim: int | None = None  # width of a head; None: n_embd / n_head
    tie_word_embeddings: bool = True  # whether the output layer shares the embedding's matrix
    output_bias: bool = False  # whether the output layer has a bias
    is_causal: bool = True  # False: tokens also attend to later ones; generation has no cache

    def __post_init__(self) -> None:
        check_range(self, "vocab_size layer_norm_epsilon initializer_range", 0)
        check_range(self, "n_positions n_embd n_head", 1)
        check_range(self, "n_layer", 1, MAX_LAYERS + 1)
        check_range(self, "embd_pdrop resid_pdrop attn_pdrop", 0, 1)
        check_range(self, "n_inner", 1)
        check_heads(self, "n_embd", "n_head", "n_kv_head", self.head_dim)
        check_concatenation(self.concatenate_positions, self.positions, "n_embd", self.n_embd)
        self.layer()

    def layer(self) -> LayerConfig:
        return LayerConfig(
            self.n_embd, self.n_head, self.n_inner or 4 * self.n_embd, self.resid_pdrop, self.attn_pdrop,
            activation=self.activation_function, norm_first=self.norm_first, norm=self.norm,
            layer_norm_eps=self.layer_norm_epsilon, bias=self.bias, num_kv_heads=self.n_kv_head,
            head_dim=self.head_dim, positions=self.positions, rope_theta=self.rope_theta,
        )  # fmt: skip


class GPT(nn.Module):
    """Token and position embeddings, causal layers, and an output layer.

    As in GPT-2, positions are learned, layers are pre-norm, and the output layer shares the embedding's
    matrix, unless the configuration says otherwise.

    model(ids) maps ids (B, T) to logits (B, T, V), where logits t predict the token after position t.

    >>> from minitransformer import GPT, GPTConfig
    >>> model = GPT(GPTConfig(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    >>> model(np.array([[5, 6, 7]])).shape
    (1, 3, 20)
    """

    is_encoder_decoder: ClassVar[bool] = False
    model_type: ClassVar[str] = "gpt2"
    config_class: ClassVar[type] = GPTConfig

    def __init__(self, config: GPTConfig, **parts: Any) -> None:
        """`parts` override fields of `LayerConfig`, such as `attention`, `activation` or `positions`."""
        super().__init__()
        self.config = c = check_config(config, self.config_class)
        width = c.n_embd - c.n_embd // 2 if c.concatenate_positions else c.n_embd
        tied_bias = c.output_bias and c.tie_word_embeddings
        self.embedding = TokenEmbedding(c.vocab_size, width, scale=False, output_bias=tied_bias)
        self.positions = absolute_positions(c.positions, c.n_embd, c.n_positions, c.concatenate_positions)
        self.dropout = nn.Dropout(c.embd_pdrop)
        self.layers = Encoder(c.n_layer, replace(c.layer(), **parts), c.is_causal)
        self.output = None if c.tie_word_embeddings else nn.Linear(c.n_embd, c.vocab_size, c.output_bias)
        self._initialize()

    def _initialize(self) -> None:
        """Draw matrices from a normal distribution. Projections into the residual stream are scaled by
        1 / sqrt(2 n_layer) (GPT-2, section 2.3)."""
        std = self.config.initializer_range
        for name, p in self.named_parameters():
            if p.ndim == 2:
                residual = name.endswith(("out_proj.weight", "linear2.weight"))
                nn.init.normal_(p, std=std / math.sqrt(2 * self.config.n_layer) if residual else std)

    @property
    def max_length(self) -> int | None:
        """The maximum number of positions; None: no limit."""
        return self.config.n_positions if self.config.positions == "learned" else None

    def states(self, ids: Any, cache: Cache | None = None, mask: Any = None) -> Float[Tensor, "B T D"]:
        """The hidden states of ids (B, T), which follow the tokens in the `cache`.

        `mask` (B, past + T) is False for padding, on the left of shorter prompts.
        """
        start = 0 if cache is None else cache.length
        x = self.embedding(ids)
        mask = key_mask(mask, x, start)
        x = self.dropout(self.positions(x, start, mask))
        return self.layers(x, mask, cache)

    def new_cache(self, max_length: int = 0) -> Cache:
        """An empty cache for decoding: each call of `states` with it continues the previous call's sequence.

        `max_length` is the initial capacity in tokens; the cache grows beyond it when needed.
        """
        return Cache(self.config.n_layer, max_length)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits of the next token for each hidden state."""
        return self.embedding.logits(states) if self.output is None else self.output(states)

    def forward(self, ids: Any, mask: Any = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.states(ids, None, mask))
