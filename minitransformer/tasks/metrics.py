"""Translation metrics: exact match, and sacreBLEU's BLEU and chrF with their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .scores import Score, accuracy


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """`exact_match` (0 to 1), `bleu` of cased raw text, `bleu_lc_tok` of lowercased text, `chrf`.

    A line feed in a text counts as a space: sacreBLEU's command reads a text on each line.
    """
    from sacrebleu.metrics import BLEU, CHRF

    scores: dict[str, Any] = {"exact_match": accuracy(hypotheses, references)}
    hyps, refs = [list(map(on_one_line, texts)) for texts in (hypotheses, references)]
    metrics = {"bleu": BLEU(), "bleu_lc_tok": BLEU(lowercase=True), "chrf": CHRF()}
    for name, metric in metrics.items():
        statistics = metric._extract_corpus_statistics(hyps, [refs])
        scores[name] = Score(statistics, "chrf" if name == "chrf" else "bleu")
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores


def on_one_line(text: str) -> str:
    """The text as it stands on a line of a file."""
    return text.replace("\n", " ")
