"""`minitransformer check RUN`: check that a run's model and training compute what they should."""

from __future__ import annotations

import sys
from pathlib import Path

from ..errors import counted
from ..files import to_json
from ..runs.checks import Outcome, check_run
from ..runs.run import Run
from .layout import print_lines, wrap
from .parsing import parse


def run(argv: list[str]) -> None:
    def check(
        run: Path,
        *,
        json: bool = False,
        data: Path | None = None,
        data_dir: Path | None = None,
        checkpoint: str = "best",
    ) -> None:
        """Check a run: causality, padding, cache, micro-batches, gradients, tokenizer and resuming.

        Prints a tick or a cross for each check; the exit code is 1 if a check fails. The run folder is not
        changed.

        Args:
            json: Print one JSON object instead of lines.
        """
        trained = Run(run, checkpoint)
        outcomes = []
        for outcome in check_run(trained, trained.splits(data, data_dir)):
            outcomes.append(outcome)
            if not json:
                print_lines(format_outcome(outcome))
        if json:
            print(to_json({each.name: {"passed": each.passed, "detail": each.detail} for each in outcomes}))
        if failed := [outcome.name for outcome in outcomes if outcome.passed is False]:
            print(f"{len(failed)} of {counted(len(outcomes), 'check')} failed", file=sys.stderr)
            raise SystemExit(1)

    parse(check, argv, "minitransformer check")


def format_outcome(outcome: Outcome) -> list[str]:
    """Format an outcome as a mark, the name of the check, and what it found."""
    marks = {True: "✓", False: "✗", None: "-"}
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        marks = {True: "ok", False: "FAILED", None: "-"}
    detail = {True: "", False: "violated: ", None: "skipped: "}[outcome.passed] + outcome.detail
    mark = marks[outcome.passed]
    hint = f"; {outcome.hint}" if outcome.hint else ""
    label = f"{mark} {outcome.name:<13} "
    return wrap(label + detail + hint, len(label))
