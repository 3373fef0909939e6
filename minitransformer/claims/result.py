"""The result of a claim: a JSON file of all that was measured, and its picture."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import minigrad

from ..files import read_json, write_json
from .claim import Claim
from .running import Study
from .verdict import verdict


def result_of(study: Study) -> dict[str, Any]:
    """What was found, with all measurements it is computed from."""
    claim, found = study.claim, study.findings()
    rates = study.rates()
    return {
        "claim": claim.name,
        "question": claim.question,
        "says": dict(claim.says),
        "setting": claim.setting,
        "measures": dict(claim.measures),
        "rules": [str(rule) for rule in claim.rules],
        "verdict": verdict(found),
        "findings": [
            {"case": f.case, "rule": str(f.rule), "ratio": f.rule.ratio, **asdict(f.effect), "verdict": f.verdict}
            for f in found
        ],
        "arms": [
            {"arm": arm, "case": case, "rate": rates[arm, case], "seeds": by_seed}
            for (arm, case), by_seed in study.measured().items()
        ],
        "tried_rates": list(claim.rates),
        "minutes": study.journal.seconds / 60,
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"minigrad {minigrad.__version__}",
    }


def write_result(study: Study, folder: Path) -> dict[str, Any]:
    """Write NAME.json, and NAME.svg where matplotlib is installed."""
    result = result_of(study)
    write_json(folder / f"{study.claim.name}.json", result)
    return result


def read_result(claim: Claim, folder: Path) -> dict[str, Any] | None:
    """The result in a folder; None if there is none."""
    path = folder / f"{claim.name}.json"
    return read_json(path, dict, str(path)) if path.exists() else None


def describe(result: Mapping[str, Any]) -> list[str]:
    """The findings in words, one a line."""
    lines = []
    for f in result["findings"]:
        effect = " to ".join("?" if f[end] is None else f"{f[end]:.3g}" for end in ("low", "high"))
        mean = "?" if f["mean"] is None else f"{f['mean']:.3g}"
        sign = "×" if f["ratio"] else ""
        where = f"{f['case']}: " if f["case"] else ""
        lines.append(f"{where}{f['rule']}: {sign}{mean} [{effect}], {f['verdict']}")
    return lines
