"""Language modelling: a decoder-only model predicts each next token of a long text."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigrad import no_grad
from minigrad.core import random

from ..data.batching import IGNORE, Batch, BlockBatches, all_blocks, sliding_blocks
from ..data.datasets import tinyshakespeare
from ..data.rows import read_noted_text
from ..data.splits import Sources, Splits, user_text_splits
from ..errors import UserError, check_integer, check_range, counted
from ..generation import TextStreamer, generate, stream
from ..text.pretrained_tokenizer import PretrainedTokenizer
from ..text.tokenizer import Tokenizer
from .base import Rows, Task, Trained, needed_options, register_task
from .inputs import MAX_SHORT, inputs_of_run, marked_ids, pick_input, split_at_marks, warn_of_unknown
from .losses import target_scores, target_statistics
from .scores import Score, perplexity
from .settings import TextSettings, check_positions, text_tokenizer

SEARCHED = 20_000  # how many characters of a text are searched for short inputs
STRETCH = 100  # consecutive tokens that count as one example, since neighboring tokens are not independent


@dataclass(frozen=True)
class TextData(TextSettings):
    """The source and the batching of a long text."""

    dataset: str = "tinyshakespeare"  # "tinyshakespeare" or "file" (--data FILE)
    tokenizer: str = "char"  # "char", "word", "bpe" or "unigram"
    batch_size: int = 12  # blocks per batch
    block_size: int = 64  # tokens per block

    datasets: ClassVar[tuple[str, ...]] = ("tinyshakespeare", "file")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "batch_size block_size", 1)


@register_task
class LanguageModelling(Task):
    """Blocks of a long text; the target of each position is the next token."""

    # ------------------------------------------------------------ the data

    name = "language-modelling"
    Data = TextData
    unit = "characters"
    own_training: ClassVar[Mapping[str, Any]] = {"validate_every": 0, "patience": 5}  # 0: once an epoch

    @classmethod
    def splits(cls, data: Any, sources: Sources) -> Splits:
        if sources.data is None:
            return Splits(tinyshakespeare(sources.data_dir))
        return user_text_splits(sources, data)

    @classmethod
    def read_file(cls, data: Any, path: Path) -> str:
        return read_noted_text(path, data)[0]

    @classmethod
    def train_tokenizer(cls, data: Any, vocab_size: int, splits: Mapping[str, Any]) -> Tokenizer:
        """Train the tokenizer. A "char" one has the characters of all splits, and no special tokens."""
        held_out = [text for name, text in splits.items() if name != "train"]
        return text_tokenizer(data.tokenizer, vocab_size, [splits["train"]], held_out, special_tokens=False)

    @classmethod
    def filter(cls, data: Any, tokenizer: Tokenizer, splits: Splits) -> Splits:
        if "test" in splits:
            check_text(tokenizer.encode_array(splits["test"]))
        return splits

    @classmethod
    def short_inputs(cls, data: Any, tokenizer: Any, splits: Mapping[str, Any]) -> list[list[str]]:
        """Return a prompt and the start of a text; the prompt is a line feed if the training text has any."""
        text = splits["validation"]
        limit = max(min(MAX_SHORT, data.block_size), 1)
        inside = re.sub(r"^\S*\s+", "", text[:SEARCHED]) or text[:SEARCHED]  # it may start in a word
        lines = [line.strip() for line in inside.split("\n") if line.strip()]
        lines = [line_start(line, tokenizer, limit) for line in lines]
        pairs = [f"{line}\n{following}" for line, following in pairwise(lines)]  # for lines of one token
        starts = [[start] for start in [*lines, *pairs] if has_target(tokenizer, start)]
        found = pick_input(tokenizer, starts or [[line] for line in lines], limit, is_argument=False)
        newline = "\n" in splits.get("train", text) and has_known_tokens(tokenizer, "\n")
        return [["\n"], *found] if newline else found

    def __init__(
        self,
        data: Any,
        train: str,
        validation: str,
        tokenizer: Tokenizer,
        labels: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        train_ids, ids = map(tokenizer.encode_array, (train, validation))
        for found, minimum in ((train_ids, data.block_size), (ids, 1)):
            if len(found) <= minimum:
                raise UserError(
                    f"a text of {counted(len(found), 'token')} is too short: expected at least "
                    f"{counted(minimum + 1, 'token')}.\n"
                    f"Pass a longer text, or lower --block-size."
                )
        super().__init__(data, train_ids, ids, tokenizer, labels, seed)

    def batch_order(self) -> BlockBatches:
        return BlockBatches(self.train, self.data.block_size, self.data.batch_size, self.seed)

    def batch(self, step: int) -> Batch:
        return self.order.batch(step)

    def batches(self, examples: np.ndarray) -> Iterator[Batch]:
        return all_blocks(examples, self.data.block_size, self.data.batch_size)

    # ------------------------------------------------------------ the objective

    model_types = ("gpt2", "llama", "recurrent")
    requires = ("states", "logits", "new_cache")
    is_encoder_decoder = False

    @classmethod
    def from_data(cls, tokenizer: Any, labels: Sequence[str]) -> dict[str, Any]:
        return {"vocab_size": tokenizer.vocab_size}  # text blocks need no special tokens

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("block_size", data.block_size, model)

    @classmethod
    def positions(cls, data: Any) -> int:
        return data.batch_size * data.block_size

    # ------------------------------------------------------------ the scores

    accuracy = "token_accuracy"

    def score(self, model: Any, examples: np.ndarray) -> dict[str, Score]:
        """Return the mean loss, the token accuracy and, for a "char" tokenizer, the bits per character."""
        return score_text(model, self.tokenizer, examples, self.data.block_size, self.data.batch_size)

    @classmethod
    def evaluate(
        cls, run: Trained, examples: str, stride: int | None = None, **decoding: Any
    ) -> tuple[dict[str, Any], Rows]:
        """Score a text in blocks or, with a `stride`, in windows that move by that many tokens.

        Return the scores, the perplexity and the number of predictions.
        """
        # a pretrained tokenizer adds its special tokens, such as the <s> before a text
        encode = getattr(run.tokenizer, "encode_with_special_tokens", run.tokenizer.encode)
        ids = np.array(encode(examples), np.int64)
        data = run.recipe.data
        scores = score_text(run.model, run.tokenizer, ids, data.block_size, data.batch_size, stride)
        return {**scores, "perplexity": perplexity(scores["loss"]), "n": len(ids) - 1}, []

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        starts = cls.short_inputs(run.recipe.data, run.tokenizer, splits)
        if not starts:
            return []
        prompt = starts[0][0]
        random.manual_seed(0)
        (text,) = cls.generate(run, prompt, 300, do_sample=True, temperature=0.8)
        return [prompt + text]

    @classmethod
    def example(cls, run: Trained, texts: Sequence[str], validation: Callable[[], Any]) -> tuple[Self, str]:
        """Return the task of one text, by default a short input. Each token but the first is a target."""
        if len(texts) > 1:
            raise UserError(
                f"{run.folder} is a language model, which takes no translation.\nPass one text, in quotes."
            )
        max_length = run.model.max_length
        if not texts:
            *_, texts = cls.short_inputs(run.recipe.data, run.tokenizer, {"validation": validation()})
        (text,) = texts
        tokens = len(run.tokenizer.encode(text))
        limit = math.inf if max_length is None else max_length + 1
        if not 2 <= tokens <= limit:
            raise UserError(
                f"the text has {counted(tokens, 'token')}, but this run takes 2 to {limit}: {text[:60]!r}.\n"
                f"Pass a {'longer' if tokens < 2 else 'shorter'} text."
            )
        warn_of_unknown(run, [text])
        data = replace(run.recipe.data, block_size=tokens - 1, batch_size=1)
        return cls(data, text, text, run.tokenizer), text.replace("\n", "↵")

    # ------------------------------------------------------------ continuing a text

    @classmethod
    def default_prompt(cls, run: Trained) -> str:
        """Return a short input of the run's data; for an imported model with a start token, an empty text.

        Raise a UserError if there is neither.
        """
        is_imported = bool(getattr(getattr(run, "record", None), "imported", None))
        if is_imported and (run.tokenizer.prefix or run.tokenizer.start_id is not None):
            return ""
        found = [] if is_imported else inputs_of_run(run)
        if not found:
            raise UserError(f"{run.folder} has no default prompt.\nPass one with --prompt TEXT.")
        return found[0][0]

    @classmethod
    def generate(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> list[str]:
        ids = cls.prompt_ids(run, prompt)
        decode = run.tokenizer.decode
        continuations = generate(run.model, [ids], max_new_tokens, **{**needed_options(run), **decoding})
        # decode both: the space between them may be part of a token
        return [decode([*ids, *new]).removeprefix(decode(ids)) for new in continuations]

    @classmethod
    def stream_text(cls, run: Trained, prompt: str, max_new_tokens: int, **decoding: Any) -> Iterator[str]:
        ids = cls.prompt_ids(run, prompt)
        text = TextStreamer(run.tokenizer.decode, ids)
        decoding = {**needed_options(run), **decoding}
        for (token,) in stream(run.model, [ids], max_new_tokens=max_new_tokens, **decoding):
            if token is not None:
                yield text.put(token)
        yield text.end()

    @classmethod
    def prompt_ids(cls, run: Trained, prompt: str) -> list[int]:
        """Return the ids of a prompt, after those that begin each text. Raise a UserError if there are none.

        The prompt may contain special tokens of a pretrained tokenizer, such as <|endoftext|>.
        """
        tokenizer = run.tokenizer
        before = tokenizer.prefix
        marks: list[str] = []
        if isinstance(tokenizer, PretrainedTokenizer):
            marks = tokenizer.special_tokens
            if not before and not prompt and tokenizer.start_id is not None:
                before = [tokenizer.start_id]
        warn_of_unknown(run, split_at_marks(prompt, marks)[::2])
        ids = marked_ids(tokenizer, prompt, marks)
        if not ids and (prompt or not before):
            raise UserError(f"the prompt {prompt!r} has no tokens.\nPass a longer prompt.")
        begins = ids[: len(before)] == before  # the user wrote the special tokens
        ids = ids if begins else [*before, *ids]
        most = run.model.max_length
        if most is not None and len(ids) > most:
            print(
                f"warning: of the prompt's {len(ids):,} tokens, the model reads the last {most:,}",
                file=sys.stderr,
            )
        return ids


def score_text(
    model: Any,
    tokenizer: Tokenizer,
    ids: np.ndarray,
    block_size: int,
    batch_size: int,
    stride: int | None = None,
) -> dict[str, Score]:
    """Return the mean loss, the token accuracy and, for a "char" tokenizer, the bits per character of a text.

    An example of a `Score` is a stretch of 100 tokens, whatever the block size, so runs with other block
    sizes can be compared.
    """
    check_text(ids)
    sums = np.zeros((-(-len(ids) // STRETCH), 3))
    place = 0
    blocks = all_blocks(ids, block_size, 2 * batch_size)  # twice the batch: no memory for gradients
    if stride is not None:
        check_integer("stride", stride, 1, block_size)
        blocks = sliding_blocks(ids, block_size, stride, 2 * batch_size)
    with no_grad():
        for batch in blocks:
            found = target_statistics(model(batch["input"]), batch["target"])[batch["target"] != IGNORE]
            np.add.at(sums, np.arange(place, place + len(found)) // STRETCH, found)
            place += len(found)
    scores = target_scores(sums, LanguageModelling.accuracy)
    if tokenizer.kind == "char":
        scores["bits_per_char"] = scores["loss"].by("bits")
    return scores


def check_text(ids: np.ndarray) -> None:
    """Raise a UserError if a text has fewer than two tokens, so that there is none to predict."""
    if len(ids) < 2:
        raise UserError(f"a text of {counted(len(ids), 'token')} cannot be scored.\nPass a longer text.")


def has_known_tokens(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text has tokens, and none of them is unknown."""
    return not tokenizer.unknown_words(text) and bool(tokenizer.encode(text))


def has_target(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text has a second token, which can be predicted."""
    with suppress(UserError):  # a character is not in the vocabulary
        return len(tokenizer.encode(text)) > 1
    return False


def line_start(line: str, tokenizer: Tokenizer, limit: int) -> str:
    """The first words of a line: at most 4 words and `limit` tokens. A single long word is cut."""
    words = line.split(" ")[:4]
    try:
        while len(words) > 1 and len(tokenizer.encode(" ".join(words))) > limit:
            words.pop()
    except UserError:  # a character that is not in the vocabulary
        pass
    return " ".join(words)[: 4 * MAX_SHORT] if len(words) > 1 else words[0][:limit]
