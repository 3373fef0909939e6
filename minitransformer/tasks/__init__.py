"""Tasks: each file has one kind of data, what a model learns from it, and how it is scored."""

from .arrays import ArrayTask, PairTask, SpecialIds
from .base import TASKS, Task, register_task, task_class
from .examples import Batch, ExampleTask
from .language_modelling import LanguageModelling
from .translation import Translation

__all__ = [
    "TASKS",
    "ArrayTask",
    "Batch",
    "ExampleTask",
    "LanguageModelling",
    "PairTask",
    "SpecialIds",
    "Task",
    "Translation",
    "register_task",
    "task_class",
]
