"""Splits of data for training, validation and test."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import counted_units, singular
from ..files import read_bytes, sha256
from .datasets import sha256_of
from .phrasebook import DOCUMENT_SENTENCES, phrasebook
from .rows import AUTO, DataError, FileFormat, read_noted_text, read_pairs

HELD_OUT = 500  # maximum number of a user's examples that are held out for validation, and for test

Pair = tuple[str, str]


@dataclass(frozen=True)
class Sources:
    """The paths of the data: a user's files, or the folder of a public data set."""

    data: Path | None = None
    validation_data: Path | None = None
    test_data: Path | None = None
    data_dir: Path | None = None

    @property
    def name(self) -> str:
        return "" if self.data is None else self.data.name

    def to_json(self, dataset: str) -> dict[str, str | None]:
        """The entry for run.json: the data's name, absolute paths, and the checksum of the training file."""
        paths = {key: None if path is None else os.path.abspath(path) for key, path in asdict(self).items()}
        file = "" if self.data is None else sha256(read_bytes(self.data))
        return {"dataset": dataset, "name": self.name or dataset, **paths, "sha256": file}

    def updated(self, given: Sources) -> Sources:
        """These paths, replaced by those in `given`. Raise a DataError if one that is kept does not exist."""
        new = {key: path for key, path in vars(given).items() if path is not None}
        for key, path in vars(self).items():
            if path is not None and key not in new and not os.path.exists(path):
                flag = f"--{key.replace('_', '-')}"
                fix = (
                    f"Pass {flag} PATH"
                    if key in ("data", "data_dir")
                    else f"Put it back, or resume with {flag} PATH"
                )
                place = str(path)
                raise DataError(f"the data of this run was in {place}, which does not exist.\n{fix}.")
        return replace(self, **new)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Sources:
        found = {key: content.get(key) for key in cls.__dataclass_fields__}
        return cls(**{key: Path(path) if isinstance(path, str) else None for key, path in found.items()})


class Splits(dict[str, Any]):
    """The splits "train", "validation" and "test", each a list of examples or a text.

    `dropped` counts the examples that were left out, by reason. `notes` are lines about the files. `reading`
    says how the files were read (see `Task.reading`). `tokenizer_texts` replace the training split in the
    training of the tokenizer, and `samples` replace the first test examples that are shown after training.
    """

    def __init__(
        self,
        splits: Mapping[str, Any],
        dropped: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
        reading: Mapping[str, Any] | None = None,
        tokenizer_texts: Sequence[str] = (),
        samples: Sequence[Any] = (),
    ) -> None:
        super().__init__(splits)
        self.dropped = dict(dropped or {})
        self.reading = dict(reading or {})
        self.notes = list(notes)
        self.tokenizer_texts = list(tokenizer_texts)
        self.samples = list(samples)

    def keep(self, kept: Mapping[str, Any], reason: str) -> Splits:
        """The splits with only the examples `kept`. `reason` says why the others are left out."""
        number = sum(map(len, self.values())) - sum(map(len, kept.values()))
        dropped = {**self.dropped, reason: number}
        return Splits(kept, dropped, self.notes, self.reading, self.tokenizer_texts, self.samples)


def check_sources(data: Any, sources: Sources) -> None:
    """Raise a DataError if a recipe needs a user's file that is not given, or training data is missing."""
    own = sources.data is not None
    if getattr(data, "dataset", "") == "file" and not own:
        raise DataError("the data is your own file, but its path is unknown.\nPass it with --data FILE.")
    if not own and (sources.validation_data or sources.test_data):
        raise DataError(
            "--validation-data and --test-data need your own training data.\n"
            "Pass it with --data FILE, or leave them out."
        )


def phrasebook_splits() -> Splits:
    """The splits of the phrasebook. 300 random pairs of its training split are for validation."""
    book = phrasebook()
    chosen = random_indices(len(book.train), 300)
    chosen = chosen[[book.train[i] not in DOCUMENT_SENTENCES for i in chosen]]
    train, validation = split_at(book.train, chosen)
    found = {"train": train, "validation": validation, "test": book.test}
    return Splits(found, samples=DOCUMENT_SENTENCES)


def random_indices(n: int, number: int) -> np.ndarray:
    """Draw `number` different indices below n, with a fixed seed."""
    return np.random.Generator(np.random.Philox(key=[0, n])).permutation(n)[:number]


def split_at(pairs: Sequence[Any], indices: np.ndarray) -> tuple[list, list]:
    """Split pairs into those that are not at the indices, and those that are."""
    chosen = set(indices.tolist())
    return [p for i, p in enumerate(pairs) if i not in chosen], [pairs[i] for i in sorted(chosen)]


def user_splits(
    sources: Sources,
    read: Callable[[Path], list] = read_pairs,
    unit: str = "pairs",
    key: Callable[[Any], Any] = lambda pair: pair,
) -> Splits:
    """The splits of a user's files, whose examples `read` returns.

    A tenth of --data, at most HELD_OUT examples, is held out for each of validation and test without a file.
    Duplicates, whose `key` is the same, are dropped. `unit` is the plural of examples in errors.
    """
    assert sources.data is not None
    pairs = read(sources.data)
    unique = list({key(pair): pair for pair in pairs}.values())
    dropped = {"duplicates": len(pairs) - len(unique)}
    files = {"validation": sources.validation_data, "test": sources.test_data}
    held = {name: read(path) for name, path in files.items() if path is not None}  # with duplicates
    notes = [note for found in (pairs, *held.values()) for note in getattr(found, "notes", ())]
    missing = [name for name in files if name not in held]
    if len(unique) < 10 and missing:
        different = f"{len(unique)} different {unit} are"
        if len(unique) == 1:
            different = f"1 {singular(unit)} is"
        raise DataError(
            f"{different} too few for training and {' and '.join(missing)}.\n"
            f"Provide at least 10, or separate files with --validation-data and --test-data."
        )
    known = {key(pair) for split in held.values() for pair in split}
    train = [pair for pair in unique if key(pair) not in known]
    dropped["also held out"] = len(unique) - len(train)
    if missing:
        number = min(HELD_OUT, len(train) // 10)
        train, chosen = split_at(train, random_indices(len(train), len(missing) * number))
        held |= {name: chosen[i :: len(missing)] for i, name in enumerate(missing)}
    if not train or not all(held.values()):
        verb = "is" if len(train) == 1 else "are"
        raise DataError(
            f"{sources.data} has {counted_units(len(train), unit)} to train on that {verb} not held out.\n"
            f"Provide more {unit}."
        )
    return Splits({"train": train, "validation": held["validation"], "test": held["test"]}, dropped, notes)


def user_text_splits(sources: Sources, how: FileFormat = AUTO) -> Splits:
    """The splits of a user's text. The last tenth is for validation, unless there is a validation file."""
    assert sources.data is not None
    text, notes = read_noted_text(sources.data, how)
    cut = len(text) * 9 // 10
    splits = {"train": text[:cut], "validation": text[cut:]}
    if sources.validation_data is not None:
        validation, more = read_noted_text(sources.validation_data, how)
        splits = {"train": text, "validation": validation}
        notes += more
    if sources.test_data is not None:
        splits["test"], more = read_noted_text(sources.test_data, how)
        notes += more
    return Splits(splits, notes=notes)


def checksums(splits: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 checksum of each split: of its text, or of the lines of its examples."""
    return {
        name: sha256_of([split] if isinstance(split, str) else map(example_line, split))
        for name, split in splits.items()
    }


def example_line(example: Any) -> str:
    """Convert an example to a text: the parts of a tuple are joined by tabs, an array is its checksum."""
    if isinstance(example, np.ndarray):
        return f"{example.dtype} {example.shape} {sha256(example.tobytes())}"
    if isinstance(example, tuple | list):  # a question may leave out its last fields
        return "\t".join(example_line(part) for part in example if part is not None).rstrip("\t")
    return str(example)
