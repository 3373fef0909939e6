"""The claims one by one, below the page of answers: quotes, the setting, and a figure of its measurements."""

from __future__ import annotations

import re

from minitransformer.claims.figure import figure
from minitransformer.plots.style import to_bytes

from ..claims import PAGE, Run, as_entry, read_runs
from .pages import PAGES

EXPERIMENT = re.compile(r"\[([\w-]+)\]\(\S+/claims/experiments/\w+\.py\)")
ABOUT = "Each dot is a seed. The right half shows the effect with its interval, shaded where it counts."


def write() -> None:
    """Draw the figures; the page's links to experiments lead to the sections."""
    runs = [first for first, _ in read_runs().values()]
    page = PAGES / PAGE.name
    text = EXPERIMENT.sub(r"[\1](#\1)", page.read_text(encoding="utf-8"))
    page.with_suffix("").mkdir()
    page.write_text("\n".join([text, *map(section, runs)]), encoding="utf-8")


def section(run: Run) -> str:
    claim = run.claim
    entries = [as_entry(each) for each in run.findings()]
    result = {"findings": entries, "measures": claim.measures, "arms": run.arms}
    (PAGES / "claims" / f"{claim.name}.png").write_bytes(to_bytes(figure(result), "png"))
    quotes = [f"> {text} ({where})" for where, text in claim.says.items()]
    shown = f"![{ABOUT}](claims/{claim.name}.png)"
    return "\n\n".join([f"## {claim.name}", claim.question, *quotes, claim.setting, shown, ABOUT, ""])
