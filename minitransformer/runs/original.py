"""`train RUN`: repeats a run with the same settings, vocabulary and data."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import recipes
from ..data.splits import Sources, Splits, checksums
from ..recipes import Recipe
from .folder import Record, RunError, read_config, read_tokenizer
from .init_from import Source
from .run import record_of


@dataclass(frozen=True)
class Original:
    """The run that is repeated: its settings and vocabulary, and the checksums of its data."""

    folder: Path
    record: Record
    recipe: Recipe

    @classmethod
    def read(cls, name: str) -> Original | None:
        """The run that `train NAME` repeats, or None if NAME is not a folder, or is a recipe's name."""
        folder = Path(name)
        if name in recipes.names() or not folder.is_dir():
            return None
        record = record_of(folder)
        return cls(folder, record, read_config(folder, record))

    def sources(self, new: Sources) -> Sources:
        """The paths of the data: the new ones, and the original ones where there are no new ones.

        An original folder of public data that no longer exists is left out.
        """
        known = self.record.sources
        if known.data_dir is not None and not os.path.exists(known.data_dir):
            known = replace(known, data_dir=None)
        return known.updated(new)

    def check_data(self, splits: Splits) -> None:
        """Raise a RunError unless the data has the checksums of the run's data."""
        found = checksums(splits)
        expected = self.record.data_sha256
        if found != expected:
            split = next(name for name in {**expected, **found} if found.get(name) != expected.get(name))
            raise RunError(
                f"{self.folder} was trained on other data: the {split} split has the checksum "
                f"{found.get(split, 'none')}, expected {expected.get(split, 'none')}.\n"
                f"Pass the run's data, or train {self.folder / 'config.toml'} on this data."
            )

    def tokenizer(self, recipe: Recipe) -> Any:
        """The run's tokenizer, or None if it has none, or `recipe` has other data or sizes."""
        sizes = [getattr(r.model, "vocab_size", 0) for r in (self.recipe, recipe)]
        same = self.recipe.data == recipe.data and sizes[0] == sizes[1]
        return read_tokenizer(self.folder, self.record) if same else None

    def initial_run(self) -> Source | None:
        """The run that this run started from, or None if it started from scratch.

        Raises a RunError if that run is missing or has changed.
        """
        if not self.record.init_from:
            return None
        known = self.record.init_from
        folder = Path(known["folder"])
        fix = "Pass where that run is now with --init-from RUN."
        about = f"{self.folder} started from a run of {known['recipe']}, which is"
        if not folder.is_dir():
            raise RunError(f"{about} not in {folder}.\n{fix}")
        source = Source.read(folder)
        if source.checksum != known["model_sha256"]:
            raise RunError(f"{about} no longer in {folder}: the weights there have changed.\n{fix}")
        return source
