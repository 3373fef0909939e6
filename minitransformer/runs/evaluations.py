"""What an evaluation leaves in a run folder.

    metrics.json             scores with their 95% intervals, and scores by length
    predictions.txt          what the model was given, what is right and what it said, separated by tabs
    predictions.hyp/ref/src  the texts among them, one on each line, as sacreBLEU's command reads them
    statistics.safetensors   what each example adds to each score, from which `compare` tells chance apart

They are of the best checkpoint, decoded greedily. Those of other checkpoints and decodings lie in
`evaluations/step-00000400-num_beams=5`, so that one never takes the place of another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
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
from ..training.directory import Directory
from ..training.lock import check_run, open_folder
from ..training.run_files import EVALUATION_FILES as FILES
from ..training.run_files import METRICS, STATISTICS
from .summaries import evaluation_html, evaluation_line

FOLDER = "evaluations"
HEADER_LIMIT = 2**20  # bytes of the header of statistics.safetensors, which names a few scores
_NAME = re.compile(r"(step-\d{8,}|average-\d+|ema)-(greedy|\w+=.*)")  # as `place` names a folder

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class About:
    """What was evaluated. Two evaluations are of the same examples if `inputs_sha256` is the same."""

    task: str
    split: str
    checkpoint: str
    decoding: str
    weights_sha256: str
    tokenizer_sha256: str
    data_sha256: str  # of the split, or of the file
    inputs_sha256: str = ""  # of the examples that were scored, and what is right


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Scores, the rows of predictions.txt, what they are of, and the lengths of inputs in words if known."""

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
        """The content of metrics.json: the scores, their intervals, and those of short and long inputs."""
        found = dict(self.scores)
        if known := intervals(self.example_scores):
            found["intervals"] = {name: list(bounds) for name, bounds in known.items()}
        if self.lengths and len(groups := by_length(self.example_scores, self.lengths)) > 1:
            found["by_length"] = groups
        return found

    def files(self) -> dict[str, bytes]:
        """The files by name. Half a surrogate pair, which a label may have, is escaped."""
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
        # one entry, since safetensors writes several in any order
        metadata = {"evaluation": json.dumps({"about": asdict(self.about), "formulas": formulas})}
        arrays = {name: np.ascontiguousarray(score.statistics) for name, score in self.example_scores.items()}
        return save(arrays, metadata)

    @property
    def example_scores(self) -> dict[str, Score]:
        """The scores that remember their examples."""
        return {name: score for name, score in self.scores.items() if isinstance(score, Score)}


def read(folder: Path) -> Evaluation | None:
    """The saved evaluation of a folder, without its rows; None if there is none, or it is damaged."""
    path = folder / STATISTICS
    if not path.is_file():
        return None
    with suppress(UserError, MinigradError, ValueError, LookupError, TypeError, RecursionError):
        content = read_bytes(path)
        length = int.from_bytes(content[:8], "little")
        if length > HEADER_LIMIT:  # each tensor takes much more memory than its name
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
    """The folder of an evaluation: of the best checkpoint, decoded greedily, the run's."""
    if which == "best" and not decoding:
        return folder
    name = checkpoint if which in ("best", "last") else which
    words = [f"{key}={value}" for key, value in decoding.items()] or ["greedy"]
    return folder / FOLDER / re.sub(r"[^\w.=-]", "-", "-".join([name, *words]))


def write(run: Path, folder: Path, evaluation: Evaluation, run_id: str = "") -> None:
    """Write an evaluation of a run to the folder that `place` gave. metrics.json is written last.

    Where `run` is not the run `run_id` any more, since somebody has trained another there, it is an OSError.
    """
    with open_folder(run) as files, files.exclusive(), ExitStack() as stack:
        check_run(files, run_id)
        for name in folder.relative_to(run).parts:
            files = stack.enter_context(files.folder(name, create=True))
        files.delete_leftovers(FILES)
        files.write_all(evaluation.files(), marks=(STATISTICS, METRICS))


def clear(run: Directory) -> None:
    """Delete the evaluations of a run that are not in the folder itself, and nothing else."""
    if not run.kind(FOLDER):
        return
    with run.folder(FOLDER) as folder:
        for name in filter(_NAME.fullmatch, folder.folders()):
            with folder.folder(name) as files:
                files.delete_leftovers(FILES)
                for file in FILES:
                    files.delete(file)
            folder.delete_folder(name)  # unless a user has put something there
    run.delete_folder(FOLDER)


# ---------------------------------------------------------------- what is in them


def weights_sha256(model: nn.Module) -> str:
    """The checksum of all weights."""
    sums = [
        f"{name} {sha256(np.ascontiguousarray(p.numpy()).tobytes())}"
        for name, p in model.state_dict().items()
    ]
    return sha256("\n".join(sums).encode())


def inputs_sha256(scores: Mapping[str, Any], rows: Rows) -> str:
    """The checksum of what was scored: of all columns but the predictions, or of the number of targets."""
    if rows:
        return sha256(to_json([row[:-1] for row in rows[1:]]).encode())
    counts = [score.statistics[:, 1].tolist() for score in scores.values() if isinstance(score, Score)]
    return sha256(to_json(counts).encode())


def by_length(scores: Mapping[str, Score], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """The scores of four groups of about the same size, from the shortest inputs to the longest."""
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
