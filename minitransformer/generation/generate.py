"""The functions `generate` and `stream`, which generate text with a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from minigrad import no_grad

from ..errors import UserError, counted
from .beams import beam_search
from .decoding_state import DecodingState
from .request import (
    OUTPUTS,
    GenerationConfig,
    check_inputs,
    check_model,
    check_prefix,
    check_tokens,
    end_tokens,
    make_config,
    target_vocab_size,
)
from .result import Hypothesis, Step, make_result
from .sampling import greedy_or_sample


def generate(
    model: Any,
    input_ids: Sequence[Sequence[int]] | np.ndarray,
    max_new_tokens: int = 64,
    eos_token_id: int | Sequence[int] | None = None,
    do_sample: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    use_cache: bool = True,
    *,
    return_dict: bool = False,
    **options: Any,
) -> Any:
    """Generate new tokens for each sequence of `input_ids`, with the model in evaluation mode.

    A decoder-only model continues the sequences, and an encoder-decoder translates them. A text ends at
    `eos_token_id` (None: the model's end token), or after `max_new_tokens`.

    Decoding is greedy by default. If `do_sample` is True, tokens are drawn from softmax(logits / temperature)
    over the `top_k` best tokens, using `seed` or the stream "generate" of `minigrad.random`. If `num_beams`
    is more than 1, it is a beam search. The other options are the fields of `GenerationConfig`. A pretrained
    model (`load_pretrained`) may have other defaults, from its generation_config.json.

    Returns lists of ids, without the end token: `num_return_sequences` for the first input, then for the
    second, ... If `return_dict` is True, returns a `GenerationResult` with ids, scores, log-probabilities,
    and the requested outputs.

    If `use_cache` is True, a step processes only the newest token, as the model caches what it needs of the
    others. The logits are the same. If a text exceeds the `max_length` of a decoder-only model, each step
    processes the last `max_length` tokens, with or without a cache: every token has moved by one position, so
    cached keys and values are invalid.

    >>> from minitransformer import GPT, GPTConfig, generate
    >>> model = GPT(GPTConfig(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    >>> [new] = generate(model, [[5, 6, 7]], max_new_tokens=4, do_sample=True, top_k=5, seed=0)
    >>> len(new)
    4
    """
    config = make_config({
        **getattr(model, "generation_options", {}),
        "max_new_tokens": max_new_tokens, "eos_token_id": eos_token_id, "do_sample": do_sample,
        "temperature": temperature, "top_k": top_k, "use_cache": use_cache, **options,
    })  # fmt: skip
    check_model(model)
    inputs = check_inputs(model, input_ids)
    steps: list[Step] | None = [] if return_dict else None
    for name in OUTPUTS:
        if getattr(config, name) and not return_dict:
            raise UserError(f"{name}=True needs return_dict=True.\nPass return_dict=True.")
    found: list[list[Hypothesis]] = []
    if inputs:
        with evaluation_mode(model):
            found = search_texts(model, inputs, config, steps)
    if steps is not None:
        return make_result(found, steps, config, target_vocab_size(model))
    return [text.ids for group in found for text in group]


def search_texts(
    model: Any, inputs: list[list[int]], config: GenerationConfig, steps: list[Step] | None
) -> list[list[Hypothesis]]:
    """The texts of each input, the best first. The steps of the search are appended to `steps`."""
    state = new_state(model, inputs, config)
    ends = end_tokens(model, config.eos_token_id)
    count = config.num_return_sequences
    if config.num_beams > 1:
        found = [texts[:count] for texts in beam_search(state, config, ends, steps)]
        fewest = min(map(len, found))
        if fewest < count:
            raise UserError(
                f"num_return_sequences = {count}, but an input has only {counted(fewest, 'text')} with these "
                f"options.\n"
                f"Ask for fewer, or raise max_new_tokens."
            )
        return found
    texts: dict[int, Hypothesis] = {}
    for _ in greedy_or_sample(state, config, ends, texts, steps):
        pass  # fills `texts`; the tokens of each step are for `stream`
    return [[texts[i] for i in range(first, first + count)] for first in range(0, len(texts), count)]


def stream(
    model: Any, input_ids: Sequence[Sequence[int]] | np.ndarray, **options: Any
) -> Iterator[list[int | None]]:
    """Yield the newest token of each text as soon as it is generated, or None for a text that has ended.

        for (token,) in stream(model, [ids], do_sample=True, top_p=0.9):
            ...

    It takes the options of `generate`, except `return_dict` and its outputs, and except beam search, whose
    texts are known only at the end. End tokens are not yielded. Each input has `num_return_sequences` texts.

    >>> from minitransformer import GPT, GPTConfig, stream
    >>> model = GPT(GPTConfig(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    >>> len([token for token in stream(model, [[5, 6, 7]], max_new_tokens=3)])
    3
    """
    config = make_config({**getattr(model, "generation_options", {}), **options}, "stream")
    check_model(model)
    if config.num_beams > 1:
        raise UserError(
            f"num_beams = {config.num_beams}, but the text of a beam search is not known before its end.\n"
            f"Leave num_beams out, or call generate."
        )
    for name in OUTPUTS:
        if getattr(config, name):
            raise UserError(
                f"{name} has no effect in stream, which yields only tokens.\n"
                f"Call generate(..., return_dict=True, {name}=True)."
            )
    inputs = check_inputs(model, input_ids)
    check_prefix(model, config.prefix, len(inputs))
    end_tokens(model, config.eos_token_id)
    return _stream(model, inputs, config)


def _stream(model: Any, inputs: list[list[int]], config: GenerationConfig) -> Iterator[list[int | None]]:
    """Run the steps of a search in evaluation mode. Between steps, the model is in the caller's mode."""
    if not inputs:
        return
    with evaluation_mode(model):
        state = new_state(model, inputs, config)
        steps = greedy_or_sample(state, config, end_tokens(model, config.eos_token_id), {})
    while True:
        with evaluation_mode(model):
            newest = next(steps, None)
        if newest is None:
            return
        tokens: list[int | None] = [None for _ in range(len(inputs) * config.num_return_sequences)]
        for row, token, is_end in zip(*(x.tolist() for x in newest), strict=True):
            tokens[row] = None if is_end else token
        if any(token is not None for token in tokens):
            yield tokens


def new_state(model: Any, inputs: list[list[int]], config: GenerationConfig) -> DecodingState:
    check_tokens(model, config)
    prefixes = check_prefix(model, config.prefix, len(inputs))
    return DecodingState(model, inputs, prefixes, config.max_new_tokens, config.use_cache)


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """A context with the model in evaluation mode, and without gradients. The mode is restored at the end."""
    training = model.training
    model.eval()
    try:
        with no_grad():
            yield
    finally:
        model.train(training)
