"""Tasks. Each file defines one task, with its data, objective and scores."""

from ..data.batching import Batch
from .arrays import ArrayTask, PairTask, SpecialIds
from .base import TASKS, Task, register_task, task_class
from .language_modelling import LanguageModelling
from .metrics import Metric
from .translation import Translation

__all__ = [
    "TASKS",
    "ArrayTask",
    "Batch",
    "LanguageModelling",
    "Metric",
    "PairTask",
    "SpecialIds",
    "Task",
    "Translation",
    "register_task",
    "task_class",
]

# the tasks other than translation and language modelling
from .causal_translation import CausalTranslation
from .classification import Classification
from .denoising import Denoising
from .encoder import EncoderTask
from .encoder_decoder import EncoderDecoderTask
from .image_classification import ImageClassification
from .masked_language_modelling import MaskedLanguageModelling
from .question_answering import QuestionAnswering
from .similarity import Similarity
from .tagging import Tagging
from .text_to_text import TextToText

__all__ += [
    "CausalTranslation",
    "Classification",
    "Denoising",
    "EncoderDecoderTask",
    "EncoderTask",
    "ImageClassification",
    "MaskedLanguageModelling",
    "QuestionAnswering",
    "Similarity",
    "Tagging",
    "TextToText",
]
