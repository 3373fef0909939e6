"""A run in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.splits import Splits
from ..recipes import Recipe
from ..tasks.base import Task


@dataclass
class LiveRun:
    """A run in training, for `Task.evaluate` and `Task.samples`: what these use of a `Run`."""

    folder: Path
    recipe: Recipe
    task: type[Task]
    tokenizer: Any
    labels: list[str]
    model: Any
    data: Splits
    generation: Mapping[str, Any] = field(default_factory=dict)  # options of `generate` that the model needs

    @property
    def reading(self) -> dict[str, Any]:
        """How the training data was read (`Task.reading`)."""
        return self.task.reading(self.data)

    def splits(self) -> Splits:
        """The splits of the training."""
        return self.data
