"""GPT: the Transformer's decoder without an encoder (Radford et al. 2018, 2019)."""

from __future__ import annotations

import math
from typing import Any

from jaxtyping import Float

from minigrad import Tensor, nn

from ..cache import Cache
from ..config import GPTConfig
from ..embeddings import LearnedPositions, TokenEmbedding
from ..layers import Encoder, LayerConfig


class GPT(nn.Module):
    """Token and learned position embeddings, pre-norm causal layers, and a tied output layer.

    model(ids) maps ids (B, T) to logits (B, T, V); logits t predict the token after position t.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        d = config.n_embd
        layer = LayerConfig(
            d, config.n_head, config.n_inner or 4 * d, config.resid_pdrop, config.attn_pdrop,
            activation=config.activation_function, norm_first=True, layer_norm_eps=config.layer_norm_epsilon,
        )  # fmt: skip
        self.embedding = TokenEmbedding(config.vocab_size, d, scale=False)
        self.positions = LearnedPositions(config.n_positions, d)
        self.dropout = nn.Dropout(config.embd_pdrop)
        self.layers = Encoder(config.n_layer, layer)
        self._initialize()

    def _initialize(self) -> None:
        """Normal; the projections into the residual stream are scaled by 1 / sqrt(2 layers) (GPT-2, 2.3)."""
        std = self.config.initializer_range
        for name, p in self.named_parameters():
            if p.ndim == 2:
                residual = name.endswith(("out_proj.weight", "linear2.weight"))
                nn.init.normal_(p, std=std / math.sqrt(2 * self.config.n_layer) if residual else std)

    def states(self, ids: Any, cache: Cache | None = None) -> Float[Tensor, "B T D"]:
        """The hidden state of each token of ids (B, T), which follow the tokens of the `cache`."""
        start = 0 if cache is None else cache.length
        x = self.dropout(self.positions(self.embedding(ids), start))
        return self.layers(x, None, True, cache)

    def new_cache(self, max_length: int = 0) -> Cache:
        """An empty cache for decoding: each call of `states` with it continues the sequence of the last.

        `max_length` is the initial capacity; the cache grows beyond it when needed.
        """
        return Cache(self.config.n_layer, max_length)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Hidden states to logits of the next token."""
        return self.embedding.logits(states)

    def forward(self, ids: Any) -> Float[Tensor, "B T V"]:
        return self.logits(self.states(ids))
