"""The state of decoding, which greedy search, sampling and beam search share: a model and its texts so far.

It handles the two protocols of models/protocol.py, the cache, the padding of prompts, and models with a
limited number of positions. A search reads logits, appends tokens and selects rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from minigrad import Tensor

CAPACITY = 256  # initial capacity of a cache, in tokens, for a model without a maximum length


class DecodingState:
    """A batch of texts that a model continues, at most by `limit` new tokens each.

    `ids` (rows, capacity) holds the first `length` tokens of each text, padded on the left. It begins with a
    prompt or, for an encoder-decoder, with the start token and the prefix of a target; the source is encoded
    in `memory`. `real` is False where `ids` is padding, and None if no row is padded.
    """

    def __init__(
        self,
        model: Any,
        inputs: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limit: int,
        use_cache: bool,
    ) -> None:
        self.model = model
        self.memory: Any = None
        self.source_mask: Any = None
        begin = inputs
        if model.is_encoder_decoder:
            source = pad(inputs, model.config.pad_token_id, left=False)
            self.source_mask = model.padding_mask(source)
            self.memory = model.encode(source, self.source_mask)
            begin = [[model.decoder_start_token_id, *prefix] for prefix in prefixes]
        lengths = np.array([len(ids) for ids in begin])
        self.start = self.length = int(lengths.max())
        most = model.max_length
        if model.is_encoder_decoder and most is not None:  # a target cannot lose its start token
            limit = min(limit, most - self.length)
        self.limit = limit
        capacity = min(self.length + limit, CAPACITY if most is None else most)
        self.ids = pad(begin, 0, left=True)
        self.beams = 1  # the number of rows for each sentence
        self.real: Any = None
        if (lengths < self.length).any():
            self.real = np.arange(max(self.length, capacity)) >= self.length - lengths[:, None]
        if not getattr(model.config, "is_causal", True):  # a new token changes the states of earlier ones
            use_cache = False
        self.cache: Any = model.new_cache(capacity) if use_cache else None

    def logits(self) -> Float[np.ndarray, "rows V"]:
        """The logits of each row's next token. With a cache, only tokens that are not in it are processed.

        If a text is longer than the model's maximum length, the model processes its last tokens, without a
        cache: each has moved by one position since the previous step, so cached keys and values are invalid.
        """
        first = 0
        most = self.model.max_length
        if most is not None and self.length > most:
            first = self.length - most
            self.cache = None
        if self.cache is not None:
            first = self.cache.length
        ids = self.ids[:, first : self.length]
        logits = self._logits_of(ids).numpy()[:, 0]
        return logits if logits.dtype.itemsize >= 4 else logits.astype(np.float32)  # 16 bits, under autocast

    def _logits_of(self, ids: Any) -> Float[Tensor, "rows 1 V"]:
        """The logits after the last of these tokens, which follow the tokens in the cache."""
        model = self.model
        cache = self.cache
        mask = None
        if self.real is not None:
            mask = self.padding_mask(self.length - ids.shape[1] if cache is None else 0)
        if self.memory is not None:
            states = model.decode(ids, self.memory, self.source_mask, mask, cache)
        else:
            states = model.states(ids, cache) if mask is None else model.states(ids, cache, mask)
        return model.logits(Tensor(states.array[:, -1:]))

    def padding_mask(self, first: int) -> Bool[Tensor, "rows T"]:
        """A mask of the tokens from position `first`, True for real ones, on the model's device."""
        mask = Tensor(self.real[:, first : self.length])
        weight = next(iter(self.model.parameters()), mask)
        return mask.to(weight.device)

    def append(self, tokens: Int[np.ndarray, " rows"]) -> None:
        """Add a token to each row."""
        if self.length == self.ids.shape[1]:
            self.ids = np.concatenate([self.ids, self.ids], 1)  # doubles the capacity
        if self.real is not None and self.length == self.real.shape[1]:
            self.real = np.concatenate([self.real, np.ones_like(self.real)], 1)
        self.ids[:, self.length] = tokens
        self.length += 1

    def select(self, rows: Any) -> None:
        """Select rows of the batch, by indices or a boolean mask."""
        self.ids = self.ids[rows]
        self._select_constants(rows)
        if self.cache is not None:
            self.cache.batch_select_indices(rows)

    def select_beams(self, sentences: Int[np.ndarray, " n"], parents: Int[np.ndarray, "n beams"]) -> None:
        """Keep `sentences`, and for each the rows `parents` that its new beams continue."""
        rows = parents.ravel()
        # with as many sentences as before, all are kept, and the beams of a sentence have the same memory
        if (len(rows), parents.shape[1]) != (len(self.ids), self.beams):
            self._select_constants(rows)
        self.beams = parents.shape[1]
        self.ids = self.ids[rows]
        if self.cache is None:
            return
        if hasattr(self.cache, "select_beams"):
            self.cache.select_beams(sentences, parents)
        else:
            self.cache.batch_select_indices(rows)

    def _select_constants(self, rows: Any) -> None:
        """Select rows of the arrays that are constant during decoding: the padding mask and the memory."""
        if self.real is not None:
            self.real = self.real[rows]
        if self.memory is not None:
            self.memory = self.memory[rows]
            self.source_mask = self.source_mask[rows]

    def new_ids(self, row: int) -> list[int]:
        """The tokens that have been appended to a row."""
        return self.ids[row, self.start : self.length].tolist()

    @property
    def history(self) -> Int[np.ndarray, "rows T"]:
        """The ids of each row so far, with -1 for padding."""
        ids = self.ids[:, : self.length]
        return ids if self.real is None else np.where(self.real[:, : self.length], ids, -1)


def pad(texts: Sequence[Sequence[int]], value: int, left: bool) -> Int[np.ndarray, "B T"]:
    """Pad texts to the length of the longest, on the left or on the right, and return them as an array."""
    length = max(map(len, texts))
    ids = np.full((len(texts), length), value)
    for row, text in zip(ids, texts, strict=True):
        row[length - len(text) if left else 0 :][: len(text)] = text
    return ids
