"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from jaxtyping import Bool, Float

from minigrad import Tensor, nn

from ..cache import Cache
from ..config import TransformerConfig
from ..embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding, token_ids
from ..errors import UserError
from ..layers import Decoder, Encoder, LayerConfig
from ..masks import padding_mask


class Transformer(nn.Module):
    """Encoder and decoder; both embeddings and the output layer share a matrix (figure 1).

        model = Transformer(TransformerConfig(vocab_size=1000))
        logits = model(source_ids, target_ids)      # (B, S), (B, T) -> (B, T, V)

    Logits t predict the token after target position t. Masks are boolean, True = may attend. Source padding
    (`pad_token_id`) is masked. Target padding needs no mask: it is on the right, where causal attention
    hides it.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        layer = LayerConfig(**{field.name: getattr(config, field.name) for field in fields(LayerConfig)})
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model, config.scale_embeddings)
        self.encoder_positions, self.decoder_positions = self._positions(), self._positions()
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Encoder(config.num_encoder_layers, layer)
        self.decoder = Decoder(config.num_decoder_layers, layer)

    def _positions(self) -> nn.Module:
        c = self.config
        if c.positions not in ("sinusoidal", "learned"):
            raise UserError(
                f'positions must be "sinusoidal" or "learned", got {c.positions!r}.\nChoose one of them.'
            )
        return (
            SinusoidalPositions(c.d_model)
            if c.positions == "sinusoidal"
            else LearnedPositions(c.max_positions, c.d_model)
        )

    def padding_mask(self, source: Any) -> Bool[Tensor, "B 1 1 S"]:
        """True where the source ids (B, S) are not padding, on the model's device."""
        mask = padding_mask(token_ids(source), self.config.pad_token_id)
        device = self.embedding.weight.device
        return mask if mask.device == device else mask.to(device)

    def encode(self, source: Any, source_mask: Tensor | None = None) -> Float[Tensor, "B S D"]:
        """The encoder's hidden states of source ids (B, S). `source_mask` defaults to the padding mask."""
        if source_mask is None:
            source_mask = self.padding_mask(source)
        x = self.dropout(self.encoder_positions(self.embedding(source)))
        return self.encoder(x, source_mask)

    def decode(
        self,
        target: Any,
        memory: Float[Tensor, "B S D"],
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's hidden states of target ids (B, T), given the encoder's states, `memory`.

        Pass the `source_mask` of `encode`, padding_mask(source, pad); without it, padding in the memory is
        attended to. With a `cache`, the ids follow those of earlier calls, and the memory is projected once.
        """
        start = 0 if cache is None else cache.length
        x = self.dropout(self.decoder_positions(self.embedding(target), start))
        if x.shape[0] != memory.shape[0]:
            raise UserError(
                f"{memory.shape[0]} source sequences and {x.shape[0]} target sequences.\n"
                f"Pass one target for each source."
            )
        return self.decoder(x, memory, source_mask, target_mask, cache)

    def new_cache(self, max_length: int = 0) -> Cache:
        """An empty cache for decoding: each call of `decode` with it continues the targets of the last.

        `max_length` is the initial capacity; the cache grows beyond it when needed.
        """
        return Cache(self.config.num_decoder_layers, max_length)

    def logits(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Hidden states to logits of the next token."""
        return self.embedding.logits(states)

    def forward(
        self, source: Any, target: Any, source_mask: Tensor | None = None, target_mask: Tensor | None = None
    ) -> Float[Tensor, "B T V"]:
        if source_mask is None:
            source_mask = self.padding_mask(source)
        memory = self.encode(source, source_mask)
        return self.logits(self.decode(target, memory, source_mask, target_mask))
