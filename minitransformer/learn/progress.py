"""What a learner has tried and solved, stored in exercises/progress.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from minigrad.io import write_atomically

from ..errors import UserError
from ..files import read_text

FILE = "progress.json"


@dataclass
class Record:
    """A learner's progress in one exercise."""

    attempts: int = 0
    hints: int = 0
    solution_shown: bool = False
    solved: bool = False

    def check(self) -> None:
        """Raise a TypeError if a value has the wrong type or is negative."""
        for name, default in asdict(Record()).items():
            value = getattr(self, name)
            if type(value) is not type(default) or value < 0:
                raise TypeError(f"{name} = {value!r}")


class Progress:
    """The records in a folder's progress file, by the names of exercises."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self.records = _read(self.file) if self.file.exists() else {}

    def of(self, name: str) -> Record:
        return self.records.setdefault(name, Record())

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({name: asdict(record) for name, record in self.records.items()}, indent=1)
        write_atomically(self.file, f"{text}\n".encode())


def _read(file: Path) -> dict[str, Record]:
    try:
        found = json.loads(read_text(file))
        known = {field.name for field in fields(Record)}
        records = {
            name: Record(**{key: value for key, value in record.items() if key in known})
            for name, record in found.items()
        }
        for record in records.values():
            record.check()
        return records
    except (json.JSONDecodeError, AttributeError, TypeError):
        raise UserError(
            f"{file} is not a progress file.\nMove it away: the next command writes a new one."
        ) from None
