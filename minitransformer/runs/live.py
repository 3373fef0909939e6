"""A run that is being trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.splits import Splits
from ..recipes import Recipe
from ..tasks.base import Task


@dataclass
class LiveRun:
    """A run that is being trained, as `Task.evaluate` and `Task.samples` take one (`Trained`)."""

    folder: Path
    recipe: Recipe
    task: type[Task]
    tokenizer: Any
    labels: list[str]
    model: Any
    data: Splits

    @property
    def reading(self) -> dict[str, Any]:
        return self.task.reading(self.data)

    def splits(self) -> Splits:
        return self.data
