"""The `[expect]` tables of a recipe: ranges of the scores that were measured.

[expect]                      # of the recipe's run, with greedy decoding
exact_match = [0.985, 1.0]    # lowest and highest

[expect."num_beams=5"]        # of `evaluate RUN --num-beams 5`
[expect."init_from=bert-mlm"] # of a run that started from a run of bert-mlm
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..errors import UserError, did_you_mean

Band = tuple[float, float]
Expectations = dict[str, dict[str, Band]]  # by condition and score; "" is the run with the recipe's settings

ADVICE = "compare steps, versions and kernels (run.json) with those of the recipe"

# settings that do not change the expected scores
NEUTRAL = ("seed", "log_every", "checkpoint_every", "micro_batches", "keep", "samples", "validation_texts")


def read_expectations(table: Mapping[str, Any]) -> Expectations:
    """Read an `[expect]` table and its subtables; a UserError names values that are not ranges."""
    found: Expectations = {"": {}}
    for key, value in table.items():
        if isinstance(value, dict):
            found[key] = {name: _band(name, band) for name, band in value.items()}
        else:
            found[""][key] = _band(key, value)
    return {condition: bands for condition, bands in found.items() if bands}


def _band(name: str, value: Any) -> Band:
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) in (int, float) for v in value)):
        raise UserError(f"{name:.60} = {value!r:.60} is not a range.\nWrite [lowest, highest].")
    low, high = map(float, value)
    if not low <= high:
        raise UserError(f"{name:.60} = {value!r:.60} is an empty range.\nWrite [lowest, highest].")
    return low, high


def check_names(expectations: Expectations, known: Collection[str]) -> None:
    """Raise a UserError for the range of an unknown score. "exact_match, ask" counts as exact_match."""
    for name in {name for bands in expectations.values() for name in bands}:
        if name.partition(",")[0] not in known:
            raise UserError(
                f"[expect] has a range for {name!r:.60}, which is not a score.{did_you_mean(name, known)}\n"
                f"Choose one of {', '.join(known)}; your own task can add others in its `metrics`."
            )


def to_table(expectations: Expectations) -> dict[str, Any]:
    """The `[expect]` table that `read_expectations` reads."""
    others = {condition: bands for condition, bands in expectations.items() if condition}
    return {**expectations.get("", {}), **others}


def condition(init_from: Mapping[str, Any], checkpoint: str, decoding: str) -> str:
    """The key of an `[expect]` table for a run and its evaluation: "init_from=bert-mlm, num_beams=5".

    It is empty for the recipe's run with greedy decoding. `init_from` comes from the run's record, `decoding`
    from its scores.
    """
    start = f"init_from={init_from.get('recipe')}" if init_from else ""
    which = f"checkpoint={checkpoint}" if checkpoint != "best" else ""
    return ", ".join(filter(None, [start, which, decoding if decoding != "greedy" else ""]))


def compare(bands: Mapping[str, Band], scores: Mapping[str, Any]) -> list[str]:
    """A line for each expected range, which says whether the score is within it."""
    lines = []
    for name, (low, high) in bands.items():
        expected = f"the expected range [{low:.5g}, {high:.5g}]"
        score = scores.get(name)
        if not isinstance(score, int | float):
            lines.append(f"no score {name} to compare with {expected}")
        elif low <= score <= high:
            lines.append(f"{name} {score:.4g} is within {expected}")
        else:
            lines.append(f"{name} {score:.4g} is outside {expected}; {ADVICE}")
    return lines
