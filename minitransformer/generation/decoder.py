"""A model with the texts that it continues: what greedy search, sampling and beam search have in common.

It knows the two protocols of models/protocol.py, the cache, the padding of prompts and the window of a model
with a limited number of positions. A search sees logits, appends tokens and selects rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Bool, Float, Int

from minigrad import Tensor
from minigrad.capture.growing import Growing
from minigrad.kernels import kernels

from ..cache import Cache
from ..models.protocol import runs_no_other_code

CAPACITY = 256  # tokens that a cache has room for at first, of a model without a limit
ROUND = 64  # a cache's room is a multiple of it, so that a text that is a little longer finds room, too
WORTH_RECORDING = 96  # tokens; recording two steps takes as long as some 50
STEADY, MAY_END = 4, 32  # steps of the same rows before, of texts of a known length, and of others
LARGEST_SPARE = 128 << 20  # bytes


class Spare(NamedTuple):
    """What a generation leaves for the next one of its model: a cache, and the step recorded with it."""

    cache: Any
    recorded: Growing


SPARES: WeakKeyDictionary[Any, Spare] = WeakKeyDictionary()


class Decoder:
    """`ids` (rows, `length`), padded on the left: prompts, or the start tokens and prefixes of targets.

    `real` is False where they are padded, and None if no row is. Rows of an encoder-decoder have a `memory`.
    Texts have `limit` new tokens; fewer, if they `may_end`.
    """

    def __init__(
        self,
        model: Any,
        inputs: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limit: int,
        use_cache: bool,
        may_end: bool = True,
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
        if model.is_encoder_decoder and most is not None:  # a window without the start token is not a target
            limit = min(limit, most - self.length)
        self.limit = limit
        capacity = min(-(-(self.length + limit) // ROUND) * ROUND, CAPACITY if most is None else most)
        self.ids = pad(begin, 0, left=True)
        self.beams = 1  # rows of each sentence
        self.real: Any = None
        if (lengths < self.length).any():
            self.real = np.arange(max(self.length, capacity)) >= self.length - lengths[:, None]
        if not getattr(model.config, "is_causal", True):  # a new token changes the states of earlier ones
            use_cache = False
        self.cache: Any = model.new_cache(capacity) if use_cache else None
        steady = MAY_END if may_end else STEADY
        self.recorded = self._recorder(steady) if self.limit >= WORTH_RECORDING else None
        if self.recorded is not None and self.memory is None and self.real is None:
            self._use_spare(self.recorded.parameters, len(begin), capacity)

    def logits(self) -> Float[np.ndarray, "rows V"]:
        """The logits of each row's next token. With a cache, only tokens that it does not have are processed.

        Of more tokens than the model has positions, the last are processed: each has moved by one position
        since the step before, so that cached keys and values are not valid.
        """
        first, most = 0, self.model.max_length
        if most is not None and self.length > most:
            first, self.cache = self.length - most, None
        if self.cache is not None:
            first = self.cache.length
        ids = self.ids[:, first : self.length]
        step = self.recorded if self.cache is not None and ids.shape[1] == 1 else None
        if step is not None and not self.cache.has_room():
            step.forget()  # the cache will have new memory
        logits = (self._logits_of(ids) if step is None else step(first, ids)).numpy()[:, 0]
        return logits if logits.dtype.itemsize >= 4 else logits.astype(np.float32)  # 16 bits, under autocast

    def _logits_of(self, ids: Any) -> Float[Tensor, "rows 1 V"]:
        """The logits after the last of these tokens, which follow those of the cache."""
        model, cache, mask = self.model, self.cache, None
        if self.real is not None:
            mask = self.padding_mask(self.length - ids.shape[1] if cache is None else 0)
        is_recorded = cache is not None and self.recorded is not None
        with cache if is_recorded else nullcontext():  # what fails leaves it as it was
            if self.memory is not None:
                states = model.decode(ids, self.memory, self.source_mask, mask, cache)
            else:
                states = model.states(ids, cache) if mask is None else model.states(ids, cache, mask)
            return model.logits(Tensor(states.array[:, -1:]))

    def _recorder(self, steady: int) -> Growing | None:
        """What records a step, and replays it without its Python; None where that does more than compute."""
        if not (hasattr(self.cache, "advance") and runs_no_other_code(self.model)):
            return None
        parameters = list(self.model.parameters())
        if not parameters or any(p.device != "cpu" for p in parameters):
            return None
        if not kernels(parameters[0].array).__name__.endswith(".jit"):  # NumPy's calls differ by the length
            return None
        return Growing(self._logits_of, parameters, self._advance, steady)

    def _use_spare(self, parameters: Sequence[Tensor], rows: int, capacity: int) -> None:
        """Begin with what the last generation left, if it fits."""
        spare = SPARES.pop(self.model, None)
        if spare is None or len(spare.recorded.inputs[0]) != rows or spare.cache.capacity < capacity:
            return
        if list(map(id, spare.recorded.parameters)) == list(map(id, parameters)):
            self.cache, self.recorded = spare
            self.cache.clear()
            self.recorded.begin_again(self._logits_of, self._advance)

    def leave_spare(self) -> None:
        """Leave the cache and the recorded step to the next generation; this one is at its end.

        That one replays a step only after it has done what the model does then.
        """
        step, cache = self.recorded, self.cache
        if step is None or not isinstance(cache, Cache) or self.memory is not None or self.real is not None:
            return
        if step.plan is not None and cache.nbytes + sum(p.nbytes for p in step.parameters) <= LARGEST_SPARE:
            step.begin_again(None, None)  # neither refers to the model, which may be freed
            SPARES[self.model] = Spare(cache, step)
            self.cache = self.recorded = None

    def _advance(self) -> None:
        """Count the token of a recorded step."""
        self.cache.advance(1)

    def look_at_model_again(self) -> None:
        """Between two steps the model was the caller's, who may have added a hook or replaced a module."""
        step = self.recorded
        if step is not None:
            same = list(map(id, self.model.parameters())) == list(map(id, step.parameters))
            if not (same and runs_no_other_code(self.model)):
                self.recorded = None

    def padding_mask(self, first: int) -> Bool[Tensor, "rows T"]:
        """True where the tokens from `first` on are real, on the model's device."""
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
        """Keep these rows, by indices or a boolean mask."""
        self.ids = self.ids[rows]
        self._select_given(rows)
        if self.cache is not None:
            self.cache.batch_select_indices(rows)

    def select_beams(self, sentences: Int[np.ndarray, " n"], parents: Int[np.ndarray, "n beams"]) -> None:
        """Keep these sentences, with beams that continue the rows `parents`, each of its own sentence."""
        rows = parents.ravel()
        # as many sentences as before: all stay, and the beams of each have the same memory
        if (len(rows), parents.shape[1]) != (len(self.ids), self.beams):
            self._select_given(rows)
        self.beams = parents.shape[1]
        self.ids = self.ids[rows]
        if self.cache is None:
            return
        if hasattr(self.cache, "select_beams"):
            self.cache.select_beams(sentences, parents)
        else:
            self.cache.batch_select_indices(rows)

    def _select_given(self, rows: Any) -> None:
        """Select rows of what a row has from the start: its padding and its memory."""
        if self.recorded is not None:
            self.recorded.forget()
        if self.real is not None:
            self.real = self.real[rows]
        if self.memory is not None:
            self.memory, self.source_mask = self.memory[rows], self.source_mask[rows]

    def new_ids(self, row: int) -> list[int]:
        """What has been appended to a row."""
        return self.ids[row, self.start : self.length].tolist()

    @property
    def history(self) -> Int[np.ndarray, "rows T"]:
        """The ids of each row, -1 where it is padded."""
        ids = self.ids[:, : self.length]
        return ids if self.real is None else np.where(self.real[:, : self.length], ids, -1)


def pad(texts: Sequence[Sequence[int]], value: int, left: bool) -> Int[np.ndarray, "B T"]:
    """The texts as an array, padded to the longest."""
    length = max(map(len, texts))
    ids = np.full((len(texts), length), value)
    for row, text in zip(ids, texts, strict=True):
        row[length - len(text) if left else 0 :][: len(text)] = text
    return ids
