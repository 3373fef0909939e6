"""The result of a claim: a JSON file with all measurements, findings and the verdict."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import minigrad

from ..errors import UserError
from ..files import read_json, write_json
from .claim import Claim
from .running import Study
from .verdict import depends_on, verdict

Result = Mapping[str, Any]  # the content of a result file

FIELDS: dict[str, type | tuple[type, ...]] = {
    "claim": str, "question": str, "says": dict, "setting": str, "measures": dict, "unequal": str,
    "rules": list, "verdict": str, "depends on": dict, "findings": list, "arms": list,
    "minutes": (int, float), "machine": str, "code": str,
}  # fmt: skip


def result_of(study: Study) -> Result:
    """Return the findings and the verdict of a study, with all measurements."""
    claim, found = study.claim, study.findings()
    return {
        "claim": claim.name,
        "question": claim.question,
        "says": dict(claim.says),
        "setting": claim.setting,
        "measures": dict(claim.measures),
        "unequal": claim.unequal,
        "rules": [str(rule) for rule in claim.rules],
        "verdict": verdict(found),
        "depends on": depends_on(found),
        "findings": [
            {
                "case": f.case,
                "rule": asdict(f.rule),
                "says": str(f.rule),
                **asdict(f.effect),
                "verdict": f.verdict,
            }
            for f in found
        ],
        "arms": [
            {
                "arm": arm,
                "case": case,
                "rate": study.best_rate(arm, case),
                "tuned": {f"{rate:g}": value for rate, value in sorted(study.tuned(arm, case).items())},
                "seeds": {str(seed): dict(measures) for seed, measures in sorted(by_seed.items())},
            }
            for (arm, case), by_seed in study.measured().items()
        ],
        "minutes": study.seconds / 60,
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"minigrad {minigrad.__version__}",
        "code": claim.code,
    }


def write_result(study: Study, folder: Path) -> Result:
    """Write the result of a study to NAME.json in a folder, and return it."""
    result = result_of(study)
    write_json(folder / f"{study.claim.name}.json", result)
    return result


def read_result(claim: Claim, folder: Path) -> Result | None:
    """Return the result in a folder, or None if there is none. Raise a UserError if the file is damaged."""
    path = folder / f"{claim.name}.json"
    if not path.exists():
        return None
    try:
        return read_json(path, FIELDS)
    except UserError as error:
        problem = str(error).partition("\n")[0]
        raise UserError(
            f"{problem}\nWrite it again, from {claim.name}.jsonl, with: minitransformer claims {claim.name} "
            f"--dir {folder}, and the --first-seed that it had."
        ) from None


def values(result: Result, case: str, quantity: str) -> dict[str, float]:
    """Return a quantity, such as "8 heads: loss", in a case, by seed."""
    arm, measure = quantity.rpartition(": ")[::2]
    seeds = next(each["seeds"] for each in result["arms"] if (each["arm"], each["case"]) == (arm, case))
    return {seed: measures[measure] for seed, measures in seeds.items()}


def describe_effect(finding: Mapping[str, Any]) -> str:
    """Format the effect with its interval: "0.31 [0.28, 0.34]", or with "×" for a ratio."""
    values = [finding[key] for key in ("mean", "low", "high")]
    mean, low, high = ("?" if x is None or math.isnan(x) else f"{x:.3g}" for x in values)
    return f"{'×' if finding['rule']['ratio'] else ''}{mean} [{low}, {high}]"


def describe(result: Result) -> list[str]:
    """Describe the findings and the verdict, one per line."""
    return [
        *(
            f"{f['case']}: {f['says']}: {describe_effect(f)}, {f['verdict']}".removeprefix(": ")
            for f in result["findings"]
        ),
        f"verdict: {result['verdict']}",
        *describe_places(result),
    ]


def describe_places(result: Result) -> list[str]:
    """Describe what the verdict depends on, with a line for each verdict, such as "holds: d_k = 128"."""
    return [f"{verdict}: {'; '.join(places)}" for verdict, places in result["depends on"].items()]
