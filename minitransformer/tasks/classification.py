"""Classification: one label for a text, from the state of [CLS] (Devlin et al. 2018, 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..data.generated import brackets, space_characters
from ..data.labels import LabelledText, label_sentences, read_labelled, sentence_splits
from ..data.rows import FileFormat
from .base import Trained, register_task
from .encoder import EncoderTask, LabelledData, Row
from .metrics import Metric
from .predictions import Prediction, class_prediction
from .scores import accuracy, macro_f1


@dataclass(frozen=True)
class ClassificationData(LabelledData):
    """Labelled texts: their source and batching."""

    dataset: str = "phrasebook-kind"  # or "phrasebook-object", "brackets"; "file" with --data FILE

    datasets: ClassVar[tuple[str, ...]] = ("phrasebook-kind", "phrasebook-object", "brackets", "file")


@register_task
class Classification(EncoderTask):
    """A label for each text."""

    # ------------------------------------------------------------ the data

    name = "classification"
    Data = ClassificationData
    unit = "texts"

    @classmethod
    def built_in(cls, data: Any) -> dict[str, list[LabelledText]]:
        if data.dataset == "brackets":
            return {name: [LabelledText(*pair) for pair in split] for name, split in brackets().items()}
        target = data.dataset.removeprefix("phrasebook-")
        return {name: label_sentences(split, target) for name, split in sentence_splits().items()}

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[LabelledText]:
        return read_labelled(path, how=FileFormat.of(data))

    @classmethod
    def texts(cls, example: LabelledText) -> list[str]:
        return [example.text]

    @classmethod
    def labels(cls, data: Any, splits: Mapping[str, Any]) -> list[str]:
        return cls.class_names(cls.labels_in(splits["train"]))

    @classmethod
    def labels_in(cls, examples: Sequence[LabelledText]) -> list[str]:
        return [example.label for example in examples]

    def encode(self, example: LabelledText) -> Row:
        return Row(*self.join_texts(self.tokenizer.encode(example.text)), self.label_id(example.label))

    # ------------------------------------------------------------ the objective

    head = "classification"

    # ------------------------------------------------------------ the scores

    metrics: ClassVar[Mapping[str, Metric | str]] = {"macro_f1": Metric("macro F1", True)}

    def decode(self, logits: np.ndarray, example: LabelledText) -> str:
        return self.label_names[int(logits.argmax())]

    @classmethod
    def expected(cls, example: LabelledText) -> str:
        return example.label

    @classmethod
    def compute_metrics(cls, predictions: Sequence[str], expected: Sequence[str]) -> dict[str, float]:
        return {"accuracy": accuracy(predictions, expected), "macro_f1": macro_f1(predictions, expected)}

    # ------------------------------------------------------------ predicting

    def prediction(self, logits: np.ndarray, example: LabelledText, top: int) -> Prediction:
        return class_prediction(logits, self.label_names, top)

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        return space_characters(text) if run.recipe.data.dataset == "brackets" else text

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> LabelledText:
        return LabelledText(cls.as_read(run, texts[0]), run.labels[0])

    @classmethod
    def with_label(cls, example: LabelledText, prediction: str) -> LabelledText:
        return example._replace(label=prediction)
