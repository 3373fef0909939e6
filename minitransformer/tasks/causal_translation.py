"""Translation by a decoder-only model, which reads source and target as one sequence.

Only the target's tokens have a loss.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..data.batching import IGNORE
from .base import register_task
from .settings import check_positions
from .translation import Translation


@register_task
class CausalTranslation(Translation):
    """Pairs of texts, each as one sequence: source, <END>, <START>, target."""

    name = "causal-translation"
    model_types: ClassVar[tuple[str, ...]] = ("gpt2", "llama")
    requires: ClassVar[tuple[str, ...]] = ("states", "logits", "new_cache")
    is_encoder_decoder = False

    @classmethod
    def check(cls, data: Any, model: Any) -> None:
        check_positions("the max_length of both sides", 2 * data.max_length, model)

    @classmethod
    def source_ids(cls, tokenizer: Any, source: str) -> list[int]:
        return [*super().source_ids(tokenizer, source), tokenizer.start_id]

    def encode(self, example: tuple[list[int], list[int]]) -> dict[str, Any]:
        row = super().encode(example)
        return {
            "input": row["source"] + row["target_in"],
            "target": [IGNORE] * len(row["source"]) + row["target"],
        }
