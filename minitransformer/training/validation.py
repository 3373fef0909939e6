"""Validation: the task's scores and, if requested, scores and samples of generated texts."""

from __future__ import annotations

from typing import Any, cast

from minigrad.core import random

from ..errors import UserError
from ..tasks.base import Task


class Validation:
    """Scores a model on a task's validation split.

    The model generates texts for the first `texts` examples, which are scored as in `evaluate`, and the first
    `samples` predictions are returned as lines. Both require `task.live`.
    """

    def __init__(self, task: Task, texts: int, samples: int) -> None:
        self.task = task
        self.texts = texts
        self.samples = samples
        if (texts or samples) and task.live is None:
            raise UserError(
                f"validation_texts and samples need a task whose `live` is set, as by `train`; "
                f"that of {type(task).__name__} is None.\nSet both to 0, or use a callback."
            )
        self.live = cast(Any, task.live)
        if texts and isinstance(self.live.splits()["validation"], str):
            raise UserError(
                f"validation_texts = {texts} has no effect: the task {task.name} scores one long text "
                f"by its loss.\nLeave it out; --samples {texts} shows continuations."
            )

    def __call__(self, model: Any, texts: int | None = None) -> tuple[dict[str, float], list[str]]:
        """Return the scores and the lines of samples. The random state of the training does not change.

        Texts are generated for at most `texts` examples, by default `self.texts`.
        """
        scores = self.task.validate(model)
        texts = self.texts if texts is None else min(texts, self.texts)
        with random.fork_rng():
            generated, samples = self._generate(texts)
        return generated | scores, samples

    def _generate(self, texts: int) -> tuple[dict[str, float], list[str]]:
        live = self.live
        count = max(texts, self.samples)
        if not count:
            return {}, []
        examples = live.splits()["validation"]
        if isinstance(examples, str):
            return {}, live.task.samples(live, {"validation": examples, "test": examples})[: self.samples]
        scores, rows = live.task.evaluate(live, examples[:count])
        numbers = {name: value for name, value in scores.items() if isinstance(value, float)}
        numbers.pop("perplexity", None)  # the perplexity of a few examples says little
        return numbers if texts else {}, [format_sample(*row) for row in rows[1 : 1 + self.samples]]


def format_sample(source: str, expected: str, predicted: str, *others: str) -> str:
    """Format a row of predictions.txt as a readable line."""
    right = "" if predicted == expected else f"  (expected: {expected})"
    return f"{source} -> {predicted}{right}"
