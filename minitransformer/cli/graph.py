"""`minitransformer graph RUN`: the computation graph of one example, with gradients."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import minigrad as mg
from minigrad.graph.saving import SUFFIXES

from ..data.rows import DataError
from ..errors import UserError, check_integer, counted
from ..explain.tokenizers import shown_tokens
from ..files import check_can_write, one_line
from ..runs.run import Run
from ..tasks import Task
from ..tasks.inputs import inputs_of_run, without_marks
from .parsing import parse


def run(argv: list[str]) -> None:
    def graph(
        run: Path,
        text: str | None = None,
        translation: str | None = None,
        *,
        output: Path = Path("graph.html"),
        color: Literal["family", "gradient", "bytes", "flops"] = "family",
        depth: int | None = None,
        readable: bool = False,
        overwrite: bool = False,
        data: Path | None = None,
        data_dir: Path | None = None,
        checkpoint: str = "best",
        device: str = "cpu",
    ) -> None:
        """Draw the computation graph of one example's training loss, with gradients.

        Args:
            text: A sentence or, for a language model, a text; by default, an example of the validation data.
            translation: The translation of the sentence; by default, the model's own.
            output: An interactive page (.html), or a picture: .svg .dot .png .pdf.
            color: Color by kind of operation, or by the size of gradients, bytes or FLOPs.
            depth: How many levels of modules to expand; by default, as many as fit on a page.
            readable: Draw composite ops (softmax, attention, ...) as the operations that define them.
            overwrite: Replace an existing file.
        """
        if depth is not None:
            check_integer("depth", depth, 0)
        trained = Run(run, checkpoint, device)
        check_output(output, overwrite)
        task, title = example(trained, text, translation, data, data_dir)
        graph = trace(trained, task, title, readable)
        if depth is not None:
            graph = graph.fold(depth)
        graph.save(output, color=color)
        report(graph, output)

    parse(graph, argv, "minitransformer graph")


def check_output(output: Path, overwrite: bool) -> None:
    """Raise a UserError if the file has an unknown type, or cannot be written."""
    suffix = output.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(
            f"{output} has an unknown file type, {output.suffix!r}.\nChoose one of {' '.join(SUFFIXES)}."
        )
    check_can_write(output, overwrite)


def example(
    run: Run, text: str | None, translation: str | None, data: Path | None, data_dir: Path | None
) -> tuple[Task, str]:
    """Return a task whose only batch is one example, and the example's title."""
    texts = [side for side in (text, translation) if side is not None]
    try:
        return run.task.example(run, texts, lambda: _validation(run, data, data_dir))
    except DataError:
        known = [text for text in inputs_of_run(run)[-1:] if run.tokenizer is not None]
        if texts or data or data_dir or not known:
            raise
        return run.task.example(run, [without_marks(each, run.task.marks) for each in known[0]], dict)


def _validation(run: Run, data: Path | None, data_dir: Path | None) -> Any:
    """Load the run's validation split. A DataError suggests to pass a text instead."""
    try:
        return run.splits(data, data_dir)["validation"]
    except DataError as error:
        raise DataError(f"{error}\nOr pass a TEXT.") from None


def trace(run: Run, task: Task, title: str, readable: bool) -> mg.graph.Graph:
    """Trace the training loss of a task's batch, without dropout. `readable` expands composite ops."""
    batch = task.batch(0)
    smoothing = run.recipe.training.label_smoothing
    title += f", loss with label smoothing {smoothing:g}" if smoothing else ""
    with mg.fused(not readable):
        loss = task.loss(run.model, batch, smoothing) / batch.n_tokens
        return mg.graph.trace(loss, run.model, check=True, title=title, words=words_of(run))


def words_of(run: Run) -> list[str] | None:
    """The tokens of the run's vocabulary as the graph shows them; None without a tokenizer."""
    if run.tokenizer is None:
        return None
    tokens = run.tokenizer.id_to_token
    return shown_tokens(run.tokenizer) or [tokens[i] for i in range(run.tokenizer.vocab_size)]


def report(graph: mg.graph.Graph, output: Path) -> None:
    """Print the title, path and size of a graph that was written, and its notes."""
    ops = sum(vertex.kind == "op" for vertex in graph.vertices)
    size = f"{output.stat().st_size / 1024:,.0f} KiB"
    print(one_line(graph.title))
    print(f"{output}: {counted(ops, 'operation')}, {size}")
    for note in graph.notes:
        print(one_line(f"note: {note}"), file=sys.stderr)
