"""Text from a model, a token at a time: greedy, or by sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from minigrad import Tensor, no_grad, random

from ..cache import Cache
from ..errors import UserError
from ..models import GPT, Transformer
from .request import check_request

Choice = Callable[[np.ndarray, np.ndarray], np.ndarray]  # logits (rows, V), and which rows -> a token each


@no_grad()
def generate(
    model: GPT | Transformer,
    input_ids: Sequence[Sequence[int]] | np.ndarray,
    max_new_tokens: int = 64,
    eos_token_id: int | None = None,
    do_sample: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """The new tokens for each sequence of `input_ids`, without the end token, in evaluation mode.

    A Transformer translates its inputs (any lengths), up to its `eos_token_id`. A GPT continues them (one
    length), seeing its last `n_positions` tokens. Greedy takes the best token; `do_sample` draws from
    softmax(logits / temperature), of the `top_k` best only, from the stream "generate" of `minigrad.random`.

    With `use_cache` a step reads only the newest token; the others' keys and values are cached. The
    logits are the same. Beyond `n_positions` a GPT reads its window anew for each token, with a cache or
    without: every token of it has moved by a position, so that no key or value is what it was.
    """
    input_ids = check_request(model, input_ids, max_new_tokens, eos_token_id, temperature, top_k)
    if not input_ids:
        return []

    def choose(logits: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        if not do_sample:
            return logits.argmax(-1)
        return _sample(logits, temperature, top_k, row_ids)

    cache = model.new_cache(_capacity(model, input_ids, max_new_tokens)) if use_cache else None
    reader = _Reader(model, cache)
    training = model.training
    model.eval()
    try:
        if isinstance(model, Transformer):
            end = model.config.eos_token_id if eos_token_id is None else eos_token_id
            return _translate(reader, input_ids, max_new_tokens, end, choose)
        return _continue(reader, input_ids, max_new_tokens, eos_token_id, choose)
    finally:
        model.train(training)


class _Reader(NamedTuple):
    """A model that reads what it has not read yet: all tokens, or with a cache the newest."""

    model: Any  # GPT or Transformer
    cache: Cache | None

    def logits(
        self, ids: np.ndarray, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Float[np.ndarray, "B V"]:
        """What follows on each row of `ids`; a Transformer reads them in the context of `memory`."""
        model, cache = self.model, self.cache
        if memory is None and ids.shape[1] > model.config.n_positions:
            ids, cache = ids[:, -model.config.n_positions :], None
        if cache is not None and cache.length:
            ids = ids[:, cache.length :]
        states = model.states(ids, cache) if memory is None else model.decode(ids, memory, mask, None, cache)
        return model.logits(states[:, -1:]).numpy()[:, 0]


def _translate(
    reader: _Reader, sources: Sequence[Sequence[int]], limit: int, end: int, choose: Choice
) -> list[list[int]]:
    """Encode once, then extend all targets together; a target that has ended leaves the batch."""
    model: Transformer = reader.model
    pad = model.config.pad_token_id
    source = np.full((len(sources), max(map(len, sources), default=0)), pad)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids)] = ids
    mask = model.padding_mask(source)
    memory = model.encode(source, mask)
    results: list[list[int]] = [[] for _ in sources]
    active = np.arange(len(sources))  # the row of `sources` that each row of the batch is
    target = np.full((len(sources), 1), model.config.bos_token_id)
    for _ in range(limit):
        if not len(active):
            break
        chosen = choose(reader.logits(target, memory, mask), active)
        continuing = chosen != end
        for row, token in zip(active[continuing], chosen[continuing], strict=True):
            results[row].append(int(token))
        active, target = active[continuing], np.concatenate([target, chosen[:, None]], 1)[continuing]
        if not continuing.all():
            memory, mask = memory[continuing], mask[continuing]
            if reader.cache is not None:
                reader.cache.batch_select_indices(continuing)
    return results


def _capacity(model: GPT | Transformer, prompts: Sequence[Sequence[int]], limit: int) -> int:
    """A cache's first capacity. Most translations end long before their limit, so theirs grows as needed."""
    return min(len(prompts[0]) + limit, model.config.n_positions) if isinstance(model, GPT) else 0


def _continue(
    reader: _Reader, prompts: Sequence[Sequence[int]], limit: int, end: int | None, choose: Choice
) -> list[list[int]]:
    if len({len(p) for p in prompts}) > 1:
        raise UserError("a GPT continues prompts of one length.\nPass them one at a time.")
    start, every, ended = len(prompts[0]), np.arange(len(prompts)), np.zeros(len(prompts), bool)
    ids, length = np.array(prompts), start
    while length < start + limit:
        if length == ids.shape[1]:
            ids = np.concatenate([ids, ids], 1)  # doubles the capacity
        chosen = choose(reader.logits(ids[:, :length]), every)
        ids[:, length] = chosen
        length += 1
        if end is not None:
            ended |= chosen == end
            if ended.all():
                break
    return [_before(end, row) for row in ids[:, start:length].tolist()]


def _before(end: int | None, ids: list[int]) -> list[int]:
    """The ids that come before the first `end`."""
    return ids[: ids.index(end)] if end in ids else ids


def _sample(logits: np.ndarray, temperature: float, top_k: int | None, row_ids: np.ndarray) -> np.ndarray:
    """One token a row by the Gumbel trick: argmax(logits + noise) is distributed as softmax(logits)."""
    with np.errstate(over="ignore"):  # to -inf, near temperature 0: only the best token is left
        logits = (logits - logits.max(-1, keepdims=True)) / np.float64(temperature)
    if top_k is not None:
        kth = np.partition(logits, -min(top_k, logits.shape[-1]), axis=-1)[:, -min(top_k, logits.shape[-1])]
        logits = np.where(logits < kth[:, None], -np.inf, logits)
    noise = random.generator(random.next_key("generate")).gumbel(size=(row_ids.max() + 1, logits.shape[-1]))
    return (logits + noise[row_ids]).argmax(-1)
