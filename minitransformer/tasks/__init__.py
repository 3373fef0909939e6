"""Tasks: each file has one kind of data, what a model learns from it, and how it is scored."""

from .arrays import ArrayTask, PairTask, SpecialIds
from .base import TASKS, Task, register_task, task_class
from .classification import Classification
from .denoising import Denoising
from .examples import Batch, ExampleTask
from .image_classification import ImageClassification
from .language_modelling import LanguageModelling
from .masked_language_modelling import MaskedLanguageModelling
from .metrics import Metric
from .question_answering import QuestionAnswering
from .similarity import Similarity
from .tagging import Tagging
from .text_to_text import TextToText
from .translation import Translation

__all__ = [
    "TASKS",
    "ArrayTask",
    "Batch",
    "Classification",
    "Denoising",
    "ExampleTask",
    "ImageClassification",
    "LanguageModelling",
    "MaskedLanguageModelling",
    "Metric",
    "PairTask",
    "QuestionAnswering",
    "Similarity",
    "SpecialIds",
    "Tagging",
    "Task",
    "TextToText",
    "Translation",
    "register_task",
    "task_class",
]
