"""Classification: the state of [CLS] predicts one label for a text (Devlin et al. 2018, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..data.generated import brackets, insert_spaces
from ..data.labels import LabelledText, label_sentences, of_sentences, read_labelled
from ..data.splits import Splits
from .base import Trained, register_task
from .encoder import EncoderTask, LabelledData
from .scores import accuracy, macro_f1


@dataclass(frozen=True)
class ClassificationData(LabelledData):
    """The source and the batching of labelled texts."""

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
    def built_in(cls, data: Any) -> Splits:
        if data.dataset == "brackets":
            found = {name: [LabelledText(*pair) for pair in split] for name, split in brackets().items()}
            return Splits(found)
        target = data.dataset.removeprefix("phrasebook-")
        return of_sentences(lambda split, _: label_sentences(split, target))

    @classmethod
    def read_file(cls, data: Any, path: Path) -> list[LabelledText]:
        return read_labelled(path, data)

    @classmethod
    def texts(cls, example: LabelledText) -> list[str]:
        return [example.text]

    @classmethod
    def labels_in(cls, examples: Sequence[LabelledText]) -> list[str]:
        return [example.label for example in examples]

    def encode(self, example: LabelledText) -> dict[str, Any]:
        return self.join_texts(self.tokenizer.encode(example.text)) | {"target": self.label_id(example.label)}

    # ------------------------------------------------------------ the objective

    head = "classification"

    # ------------------------------------------------------------ the scores

    metrics = (accuracy, macro_f1)

    # ------------------------------------------------------------ predicting

    @classmethod
    def as_read(cls, run: Trained, text: str) -> str:
        return insert_spaces(text) if run.recipe.data.dataset == "brackets" else text

    @classmethod
    def unlabelled(cls, run: Trained, texts: Sequence[str]) -> LabelledText:
        return LabelledText(cls.as_read(run, texts[0]), run.labels[0])

    def with_answer(self, example: LabelledText, answer: str) -> LabelledText:
        return example._replace(label=answer)
