"""What a recipe expects: the ranges in which its scores were measured to be, the `[expect]` tables.

[expect]                      # of the run as the recipe trains it, decoded greedily
exact_match = [0.985, 1.0]    # lowest and highest

[expect."num_beams=5"]        # of `evaluate RUN --num-beams 5`
[expect."init_from=bert-mlm"] # of a run that started from a run of bert-mlm
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..errors import UserError, nearest

Band = tuple[float, float]
Expectations = dict[
    str, dict[str, Band]
]  # bands of scores by condition; "" is the run as the recipe trains it

ADVICE = "compare steps, versions and kernels (run.json) with those of the recipe"

# a run with other values of these is still the recipe's
NEUTRAL = ("seed", "log_every", "checkpoint_every", "micro_batches", "keep", "samples", "validation_texts")


def read_expectations(table: Mapping[str, Any]) -> Expectations:
    """The bands of an `[expect]` table and of its tables; a UserError names what is not a band."""
    found: Expectations = {"": {}}
    for key, value in table.items():
        if isinstance(value, dict):
            found[key] = {name: _band(name, band) for name, band in value.items()}
        else:
            found[""][key] = _band(key, value)
    return {condition: bands for condition, bands in found.items() if bands}


def _band(name: str, value: Any) -> Band:
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)):
        raise UserError(f"{name:.60} = {value!r:.60} is not a band.\nWrite [lowest, highest].")
    low, high = map(float, value)
    if not low <= high:
        raise UserError(f"{name:.60} = {value!r:.60} is an empty band.\nWrite [lowest, highest].")
    return low, high


def check_names(expectations: Expectations, known: Collection[str]) -> None:
    """Raise a UserError for a band of a score that is not known; "exact_match, ask" is an exact match."""
    for name in {name for bands in expectations.values() for name in bands}:
        if name.partition(",")[0] not in known:
            raise UserError(
                f"[expect] has a range for {name!r:.60}, which is not a score.{nearest(name, known)}\n"
                f"Choose one of {', '.join(known)}; a task of your own has others in its `metrics`."
            )


def to_table(expectations: Expectations) -> dict[str, Any]:
    """The `[expect]` table that `read_expectations` reads back."""
    others = {condition: bands for condition, bands in expectations.items() if condition}
    return {**expectations.get("", {}), **others}


def condition(init_from: Mapping[str, Any], checkpoint: str, decoding: str) -> str:
    """How a run and its evaluation differ from what `[expect]` is about: "init_from=bert-mlm, num_beams=5".

    `init_from` is a record's, `decoding` is that of the scores.
    """
    start = f"init_from={init_from.get('recipe')}" if init_from else ""
    which = f"checkpoint={checkpoint}" if checkpoint != "best" else ""
    return ", ".join(filter(None, [start, which, decoding if decoding != "greedy" else ""]))


def compare(bands: Mapping[str, Band], scores: Mapping[str, Any]) -> list[str]:
    """A line for each band: whether the score is within it."""
    lines = []
    for name, (low, high) in bands.items():
        expected = f"the expected range [{low:.5g}, {high:.5g}]"
        score = scores.get(name)
        if not isinstance(score, int | float):
            lines.append(f"there is no score {name} to compare with {expected}")
        elif low <= score <= high:
            lines.append(f"{name} {score:.4g} is within {expected}")
        else:
            lines.append(f"{name} {score:.4g} is outside {expected}; {ADVICE}")
    return lines
