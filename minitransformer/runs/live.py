"""A run that is being trained."""

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
    """A run that is being trained, with the attributes of `Run` that a task's methods use."""

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
        """The splits of the training's data."""
        return self.data
