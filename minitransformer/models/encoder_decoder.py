"""The base class of models with an encoder and a decoder."""

from __future__ import annotations

from typing import Any, ClassVar

from jaxtyping import Bool, Float

from minigrad import Tensor, nn

from ..layers.cache import Cache
from ..layers.embeddings import TokenEmbedding, token_ids
from ..layers.masks import padding_mask


class EncoderDecoderModel(nn.Module):
    """The base class of Transformer, BART, T5 and Seq2Seq, which define `encode`, `decode` and `logits`."""

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
        mask = padding_mask(token_ids(source), self.config.pad_token_id)
        device = self.embedding.weight.device
        return mask if mask.device == device else mask.to(device)

    def new_cache(self, max_length: int = 0) -> Any:
        """An empty cache for decoding: each call of `decode` with it continues the previous call's targets.

        `max_length` is the initial capacity in tokens; the cache grows beyond it when needed.
        """
        return Cache(len(self.decoder.layers), max_length)

    def forward(
        self, source: Any, target: Any, source_mask: Any = None, target_mask: Any = None
    ) -> Float[Tensor, "B T V"]:
        if source_mask is None:
            source_mask = self.padding_mask(source)
        memory = self.encode(source, source_mask)
        return self.logits(self.decode(target, memory, source_mask, target_mask))
