"""`minitransformer claims [NAME...]`: test claims of the literature."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..claims import CLAIMS, Claim, Study, find
from ..claims.result import describe, read_result, write_result
from ..claims.running import TUNING_SEEDS, processes
from ..claims.verdict import MOST_SEEDS
from ..errors import UserError
from .layout import print_lines, wrap
from .parsing import parse

FOLDER = Path("runs/claims")


def run(argv: list[str]) -> None:
    def claims(
        names: tuple[str, ...] = (),
        *,
        all: bool = False,
        quick: bool = False,
        dir: Path = FOLDER,
        workers: int = 2,
        first_seed: int = 0,
    ) -> None:
        """List the claims of the literature, or test some of them.

        A test tunes each arm's learning rate, then compares the arms with five seeds, or with ten if five do
        not decide. It continues where an earlier test stopped.

        Args:
            names: The claims to test.
            all: Test all claims.
            quick: Train each arm for a few steps, without a verdict, to check that the code runs.
            dir: The folder of measurements and results.
            workers: The number of processes, with one thread each.
            first_seed: The first of the five seeds; pass another --dir to keep the results separate.
        """
        if all and names:
            raise UserError("--all is passed with names of claims.\nPass either.")
        if workers < 1:
            raise UserError(f"--workers must be at least 1, but is {workers}.")
        if not 0 <= first_seed <= 2**32 - MOST_SEEDS:
            raise UserError(f"--first-seed must be from 0 to {2**32 - MOST_SEEDS}, but is {first_seed}.")
        if {*range(first_seed, first_seed + MOST_SEEDS)} & {*TUNING_SEEDS}:
            raise UserError(
                f"--first-seed {first_seed} compares the arms with a seed that chose their learning rates "
                f"({' and '.join(map(str, TUNING_SEEDS))}).\nPass another, such as 100."
            )
        chosen = list(CLAIMS.values()) if all else [find(name) for name in dict.fromkeys(names)]
        if not chosen and (quick or first_seed):
            raise UserError(
                f"{'--quick' if quick else '--first-seed'} is passed without a claim.\nPass names, or --all."
            )
        if not chosen:
            Console(highlight=False).print(listing(dir))
            return
        dir.mkdir(parents=True, exist_ok=True)
        with processes(workers) as pool:
            try:
                for claim in chosen:
                    test(Study(claim, dir, first_seed, quick), dir, pool)
            except KeyboardInterrupt:
                print("What was measured is kept: the same command goes on with the rest.", flush=True)
                raise

    parse(claims, argv, "minitransformer claims")


def listing(folder: Path) -> Table:
    """A table of all claims, with the verdicts of the results in a folder."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("claim", "question", "verdict"):
        table.add_column(name)
    for claim in CLAIMS.values():
        table.add_row(claim.name, claim.question, describe_verdict(claim, folder))
    return table


def describe_verdict(claim: Claim, folder: Path) -> str:
    try:
        result = read_result(claim, folder)
    except UserError:
        return "(damaged)"
    if result is None:
        return ""
    return result["verdict"] + ("" if result["code"] == claim.code else " (measured by other code)")


def test(study: Study, folder: Path, pool: Executor) -> None:
    claim = study.claim
    print_paragraphs(introduction(claim))
    study.run(pool, lambda line: print(f"  {progress(line)}", flush=True))
    if study.is_quick:
        return
    result = write_result(study, folder)
    print_paragraphs(describe(result))
    print(f"{folder / claim.name}.json\n")


def introduction(claim: Claim) -> list[str]:
    return [
        f"{claim.name}: {claim.question}",
        *(f"{where}: {text}" for where, text in claim.says.items()),
        claim.setting,
    ]


def print_paragraphs(texts: list[str]) -> None:
    print_lines([line for text in texts for line in wrap(text)])


def progress(line: dict[str, Any]) -> str:
    """Format a measurement: arm, case, learning rate, seed, values and seconds."""
    trial = line["trial"]
    place = ", ".join(filter(None, (trial["arm"], trial["case"])))
    rate = f", learning rate {trial['rate']:g}" if trial["rate"] else ""
    values = ", ".join(f"{name} {value:.4g}" for name, value in line["measures"].items())
    return f"{place}{rate}, seed {trial['seed']}: {values} ({line['seconds']:.0f} s)"
