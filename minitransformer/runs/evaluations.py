"""The files that an evaluation writes to a run folder.

    metrics.json             scores with their 95% intervals, and scores by length
    predictions.txt          input, correct answer and prediction of each example, separated by tabs
    predictions.hyp/ref/src  predictions, references and sources, one per line, for sacreBLEU's command
    statistics.safetensors   each example's contribution to each score, for the tests of `compare`

These files are for the best checkpoint with greedy decoding. The files of other checkpoints and decodings are
in subfolders, such as `evaluations/step-00000400-num_beams=5`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import MinigradError, nn
from minigrad.io import load_bytes

from ..errors import UserError
from ..files import read_bytes, sha256, to_json
from ..tasks.bootstrap import intervals
from ..tasks.metrics import on_one_line
from ..tasks.scores import FORMULAS, Score
from ..training.storage import EVALUATION_FILES as FILES
from ..training.storage import (
    EVALUATIONS,
    METRICS,
    STATISTICS,
    check_run,
    delete_leftovers,
    lock_evaluation,
    write_all,
)
from .summaries import evaluation_html, evaluation_line

HEADER_LIMIT = 2**20  # maximum bytes of the header of statistics.safetensors, which names a few scores
_NAME = re.compile(r"(step-\d{8,}|average-\d+|ema)-(greedy|\w+=.*)")  # the names that `place` returns

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class About:
    """What was evaluated, and on which data. Evaluations of the same examples have equal `inputs_sha256`."""

    task: str
    split: str
    checkpoint: str
    decoding: str
    weights_sha256: str
    tokenizer_sha256: str
    data_sha256: str  # the checksum of the split, or of the file
    inputs_sha256: str = ""  # the checksum of the scored examples with their correct answers


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The scores of an evaluation, with the rows of predictions.txt, and the inputs' lengths in words."""

    about: About
    scores: dict[str, Any]
    rows: Rows = ()
    lengths: Sequence[int] = ()

    def __repr__(self) -> str:
        return evaluation_line(self)

    def _repr_html_(self) -> str:
        return evaluation_html(self)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The content of metrics.json: scores, their intervals, and scores by length."""
        found = dict(self.scores)
        if known := intervals(self.example_scores):
            found["intervals"] = {name: list(bounds) for name, bounds in known.items()}
        if self.lengths and len(groups := by_length(self.example_scores, self.lengths)) > 1:
            found["by_length"] = groups
        return found

    def files(self) -> dict[str, bytes]:
        """The content of each file. Lone surrogates, which a label may have, are escaped."""
        found = {METRICS: (to_json(self.metrics, indent=1) + "\n").encode()}
        if self.rows:
            lines = [
                "\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in r) for r in self.rows
            ]
            found["predictions.txt"] = ("\n".join(lines) + "\n").encode(errors="backslashreplace")
        if len(self.rows) > 1 and len(self.rows[0]) == 3 and self.about.decoding:
            columns = zip(*self.rows[1:], strict=True)
            for name, texts in zip(("src", "ref", "hyp"), columns, strict=True):
                content = "".join(f"{on_one_line(text)}\n" for text in texts)
                found[f"predictions.{name}"] = content.encode(errors="backslashreplace")
        return found | {STATISTICS: self._statistics()}

    def _statistics(self) -> bytes:
        from safetensors.numpy import save

        formulas = {name: score.formula for name, score in self.example_scores.items()}
        # a single key, since safetensors writes several in an arbitrary order
        metadata = {"evaluation": json.dumps({"about": asdict(self.about), "formulas": formulas})}
        arrays = {name: np.ascontiguousarray(score.statistics) for name, score in self.example_scores.items()}
        return save(arrays, metadata)

    @property
    def example_scores(self) -> dict[str, Score]:
        """The scores for which the contribution of each example is known."""
        return {name: score for name, score in self.scores.items() if isinstance(score, Score)}


def read(folder: Path) -> Evaluation | None:
    """Read the evaluation that is saved in a folder, without its rows; None if it is missing or damaged."""
    path = folder / STATISTICS
    if not path.is_file():
        return None
    with suppress(UserError, MinigradError, ValueError, LookupError, TypeError, RecursionError):
        content = read_bytes(path)
        length = int.from_bytes(content[:8], "little")
        if length > HEADER_LIMIT:  # its tensors would take too much memory
            return None
        arrays = load_bytes(content, path)
        header = json.loads(content[8 : 8 + length])["__metadata__"]
        known = json.loads(header["evaluation"])
        about = About(**known["about"])
        formulas = known["formulas"]
        if all(formula in FORMULAS for formula in formulas.values()):
            scores = {name: Score(arrays[name].numpy(), formula) for name, formula in formulas.items()}
            return Evaluation(about, scores)
    return None


def place(folder: Path, which: str, checkpoint: str, decoding: Mapping[str, Any]) -> Path:
    """The folder for an evaluation: the run folder for the best checkpoint with greedy decoding.

    Other evaluations have a subfolder. `which` is the requested checkpoint, such as "best" or "average:5",
    and `checkpoint` is the name of the checkpoint that was read.
    """
    if which == "best" and not decoding:
        return folder
    name = checkpoint if which in ("best", "last") else which
    words = [f"{key}={value}" for key, value in decoding.items()] or ["greedy"]
    return folder / EVALUATIONS / re.sub(r"[^\w.=-]", "-", "-".join([name, *words]))


def write(run: Path, folder: Path, evaluation: Evaluation, run_id: str) -> None:
    """Write an evaluation of a run to the folder returned by `place`. metrics.json is written last.

    Raises an OSError if the folder `run` no longer contains the run `run_id`.
    """
    with lock_evaluation(run):
        check_run(run, run_id)
        folder.mkdir(parents=True, exist_ok=True)
        delete_leftovers(folder, FILES)
        write_all(folder, evaluation.files(), marks=(STATISTICS, METRICS))


def clear(run: Path) -> None:
    """Delete the evaluations in the subfolders of a run, but no other files."""
    for folder in (run / EVALUATIONS).glob("*"):
        if _NAME.fullmatch(folder.name) and folder.is_dir():
            delete_leftovers(folder, FILES)
            for file in FILES:
                (folder / file).unlink(missing_ok=True)
            with suppress(OSError):  # the folder has other files
                folder.rmdir()
    with suppress(OSError):
        (run / EVALUATIONS).rmdir()


# ---------------------------------------------------------------- contents


def weights_sha256(model: nn.Module) -> str:
    """The checksum of the names and values of all weights."""
    sums = [
        f"{name} {sha256(np.ascontiguousarray(p.numpy()).tobytes())}"
        for name, p in model.state_dict().items()
    ]
    return sha256("\n".join(sums).encode())


def inputs_sha256(scores: Mapping[str, Any], rows: Rows) -> str:
    """The checksum of the scored examples: their inputs and correct answers, or else their target counts."""
    if rows:
        return sha256(to_json([row[:-1] for row in rows[1:]]).encode())
    counts = [score.statistics[:, 1].tolist() for score in scores.values() if isinstance(score, Score)]
    return sha256(to_json(counts).encode())


def by_length(scores: Mapping[str, Score], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """The scores of up to four groups of similar sizes, from the shortest inputs to the longest."""
    words = np.asarray(lengths)
    ends = np.unique(np.quantile(words, [0.25, 0.5, 0.75, 1.0], method="inverted_cdf")).astype(int)
    found = []
    above = -1
    for end in ends:
        rows = np.flatnonzero((words > above) & (words <= end))
        span = [int(words[rows].min()), int(words[rows].max())]
        values = {name: float(s.of(rows)) for name, s in scores.items() if len(s.statistics) == len(words)}
        found.append({"words": span, "n": len(rows), **values})
        above = end
    return found
