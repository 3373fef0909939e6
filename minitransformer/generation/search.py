"""Autoregressive decoding: greedy search and sampling."""

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

Choose = Callable[[np.ndarray, np.ndarray], np.ndarray]  # logits (rows, V), row numbers -> a token each


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

    A Transformer translates its inputs (of any lengths) until `eos_token_id`. A GPT continues them (all of
    the same length); its context is the last `n_positions` tokens. Decoding is greedy, or with `do_sample`
    draws from softmax(logits / temperature) over the `top_k` best tokens, using the stream "generate" of
    `minigrad.random`.

    With `use_cache`, a step processes only the newest token; the keys and values of the others are cached.
    The logits are the same. Beyond `n_positions`, a GPT processes its whole window for each token, with or
    without a cache: every token in it has moved by one position, so cached keys and values are not valid.
    """
    input_ids = check_request(model, input_ids, max_new_tokens, eos_token_id, temperature, top_k)
    if not input_ids:
        return []

    def choose(logits: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        if not do_sample:
            return logits.argmax(-1)
        return _sample(logits, temperature, top_k, row_ids)

    cache = model.new_cache(_capacity(model, input_ids, max_new_tokens)) if use_cache else None
    decoder = _Decoder(model, cache)
    training = model.training
    model.eval()
    try:
        if isinstance(model, Transformer):
            end = model.config.eos_token_id if eos_token_id is None else eos_token_id
            return _translate(decoder, input_ids, max_new_tokens, end, choose)
        return _continue(decoder, input_ids, max_new_tokens, eos_token_id, choose)
    finally:
        model.train(training)


class _Decoder(NamedTuple):
    """A model with its cache: it processes all tokens, or with a cache only the new ones."""

    model: Any  # GPT or Transformer
    cache: Cache | None

    def logits(
        self, ids: np.ndarray, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Float[np.ndarray, "B V"]:
        """The logits after the last token of each row of `ids`; a Transformer also attends to `memory`."""
        model, cache = self.model, self.cache
        if memory is None and ids.shape[1] > model.config.n_positions:
            ids, cache = ids[:, -model.config.n_positions :], None
        if cache is not None and cache.length:
            ids = ids[:, cache.length :]
        states = model.states(ids, cache) if memory is None else model.decode(ids, memory, mask, None, cache)
        return model.logits(states[:, -1:]).numpy()[:, 0]


def _translate(
    decoder: _Decoder, sources: Sequence[Sequence[int]], limit: int, end: int, choose: Choose
) -> list[list[int]]:
    """Encode once, then extend all targets together; finished targets leave the batch."""
    model: Transformer = decoder.model
    pad = model.config.pad_token_id
    source = np.full((len(sources), max(map(len, sources), default=0)), pad)
    for row, ids in zip(source, sources, strict=True):
        row[: len(ids)] = ids
    mask = model.padding_mask(source)
    memory = model.encode(source, mask)
    results: list[list[int]] = [[] for _ in sources]
    active = np.arange(len(sources))  # the row in `sources` of each row of the batch
    target = np.full((len(sources), 1), model.config.bos_token_id)
    for _ in range(limit):
        if not len(active):
            break
        chosen = choose(decoder.logits(target, memory, mask), active)
        continuing = chosen != end
        for row, token in zip(active[continuing], chosen[continuing], strict=True):
            results[row].append(int(token))
        active, target = active[continuing], np.concatenate([target, chosen[:, None]], 1)[continuing]
        if not continuing.all():
            memory, mask = memory[continuing], mask[continuing]
            if decoder.cache is not None:
                decoder.cache.batch_select_indices(continuing)
    return results


def _capacity(model: GPT | Transformer, prompts: Sequence[Sequence[int]], limit: int) -> int:
    """The initial cache capacity; 0 for translations, most of which end long before their limit."""
    return min(len(prompts[0]) + limit, model.config.n_positions) if isinstance(model, GPT) else 0


def _continue(
    decoder: _Decoder, prompts: Sequence[Sequence[int]], limit: int, end: int | None, choose: Choose
) -> list[list[int]]:
    if len({len(p) for p in prompts}) > 1:
        raise UserError("a GPT needs prompts of the same length.\nPass them one at a time.")
    start, rows, finished = len(prompts[0]), np.arange(len(prompts)), np.zeros(len(prompts), bool)
    ids, length = np.array(prompts), start
    while length < start + limit:
        if length == ids.shape[1]:
            ids = np.concatenate([ids, ids], 1)  # doubles the capacity
        chosen = choose(decoder.logits(ids[:, :length]), rows)
        ids[:, length] = chosen
        length += 1
        if end is not None:
            finished |= chosen == end
            if finished.all():
                break
    return [_truncate(row, end) for row in ids[:, start:length].tolist()]


def _truncate(ids: list[int], end: int | None) -> list[int]:
    """The ids before the first `end`."""
    return ids[: ids.index(end)] if end in ids else ids


def _sample(logits: np.ndarray, temperature: float, top_k: int | None, row_ids: np.ndarray) -> np.ndarray:
    """One token for each row, by the Gumbel-max trick: argmax(logits + noise) ~ softmax(logits)."""
    with np.errstate(over="ignore"):  # near temperature 0, all but the best token overflow to -inf
        logits = (logits - logits.max(-1, keepdims=True)) / np.float64(temperature)
    if top_k is not None:
        kth = np.partition(logits, -min(top_k, logits.shape[-1]), axis=-1)[:, -min(top_k, logits.shape[-1])]
        logits = np.where(logits < kth[:, None], -np.inf, logits)
    noise = random.generator(random.next_key("generate")).gumbel(size=(row_ids.max() + 1, logits.shape[-1]))
    return (logits + noise[row_ids]).argmax(-1)
