"""Base class of the tasks of encoder-decoders, which generate a target text from a source text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..errors import UserError
from ..generation import generate
from .base import Rows, Task, Trained, needed_options
from .scores import perplexity
from .settings import check_positions


class EncoderDecoderTask(Task):
    """Base class of tasks whose model generates texts; a subclass defines `predict`."""

    # ------------------------------------------------------------ the objective

    requires: ClassVar[tuple[str, ...]] = ("encode", "decode", "logits", "new_cache")
    is_encoder_decoder = True

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("max_length", data.max_length, model)
        if (size := getattr(model, "target_vocab_size", None)) is not None:
            raise UserError(
                f"target_vocab_size = {size}, but the task {cls.name} has one tokenizer for source and "
                f"target.\nLeave target_vocab_size out: vocab_size is the size of both."
            )

    # ------------------------------------------------------------ scores and predictions

    accuracy = "token_accuracy"
    column_names: ClassVar[tuple[str, ...]] = ("source", "reference", "prediction")  # in predictions.txt

    @classmethod
    def evaluate(cls, run: Trained, examples: Any, **decoding: Any) -> tuple[dict[str, Any], Rows]:
        """Return the scores of generated texts and with teacher forcing; and the rows of predictions.txt."""
        examples = cls.within_limit(run, examples)
        rows = cls.generated_rows(run, examples, **decoding)
        _, references, predictions = zip(*rows, strict=True)
        task = cls.of_run(run, examples)
        scores = {**cls.compute_metrics(predictions, references), **task.score(run.model, task.validation)}
        scores |= {"perplexity": perplexity(scores["loss"]), "n": len(examples)}
        return scores, [cls.column_names, *rows]

    @classmethod
    def generated_rows(cls, run: Trained, examples: Any, **decoding: Any) -> list[tuple[str, str, str]]:
        """Return the source, the reference and the model's text of each example."""
        found = cls.predict(run, examples, **decoding)
        return [(s, t, prediction.text) for (s, t), prediction in zip(examples, found, strict=True)]

    @classmethod
    def samples(cls, run: Trained, splits: Mapping[str, Any]) -> list[str]:
        examples = getattr(splits, "samples", None) or splits["test"][:5]
        return [f"{source} -> {found}" for source, _, found in cls.generated_rows(run, examples)]

    @classmethod
    def translate(cls, run: Trained, texts: Sequence[str], **decoding: Any) -> list[str]:
        """Return the texts that the model generates, by default with greedy decoding.

        `decoding` has arguments of `generate`. With `num_return_sequences=n`, each text has n consecutive
        results.
        """
        return [found.text for found in cls.predictions(run, [[text] for text in texts], **decoding)]


def generate_targets(
    run: Trained, sources: Sequence[list[int]], limits: Sequence[int], batch_size: int = 64, **decoding: Any
) -> list[list[list[int]]]:
    """Generate `num_return_sequences` targets for each source. A target has at most `limits[i]` token ids."""
    decoding = {**needed_options(run), **decoding}
    count = decoding.get("num_return_sequences", 1)
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths share a batch
    results: list[list[list[int]]] = [[]] * len(sources)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        longest = max(limits[i] for i in rows)
        targets = generate(run.model, [sources[i] for i in rows], longest, **decoding)
        for k, i in enumerate(rows):
            results[i] = [ids[: limits[i]] for ids in targets[k * count : (k + 1) * count]]
    return results
