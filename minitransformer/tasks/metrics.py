"""Metrics, which say how scores are named, formatted and compared; and the scores of translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..text.words import UNSPACED_CHARACTER, scored_words
from .scores import Score, accuracy


@dataclass(frozen=True)
class Metric:
    """The label, direction and format of a score.

    If `higher_is_better` is None, the score cannot select checkpoints (--monitor). `unit` is "%" for a
    fraction from 0 to 1, "points" for a score from 0 to 100, and "" for other numbers.
    """

    label: str
    higher_is_better: bool | None = None
    unit: str = ""
    of_tokens: bool = False  # whether the score depends on the tokenizer
    by_length: bool = True  # whether the score is in the table of scores by length

    @property
    def short_label(self) -> str:
        """The label without the part in parentheses, for tables."""
        return self.label.partition(" (")[0]

    def text(self, value: Any) -> str:
        """Format a score."""
        if not isinstance(value, float):
            return str(value)
        return {"%": f"{value:.2%}", "points": f"{value:.2f}"}.get(self.unit, f"{value:.4g}")

    def difference(self, value: float) -> str:
        """Format a difference of two scores. A difference of percentages is in percentage points."""
        if self.unit:
            return f"{100 * value if self.unit == '%' else value:+.2f}"
        return f"{value:+.4f}" if abs(value) < 10 else f"{value:+.1f}"  # such as a perplexity


METRICS = {  # the metrics of all tasks; a task's `descriptions` add to them, or override them
    "exact_match": Metric("exact match", True, "%"),
    "token_accuracy": Metric("token accuracy (teacher forcing)", True, "%", of_tokens=True),
    "bleu": Metric("BLEU (sacreBLEU, cased raw text)", True, "points"),
    "bleu_lc_tok": Metric("BLEU, lowercased", True, "points", by_length=False),
    "chrf": Metric("chrF", True, "points"),
    "loss": Metric("loss, nats", False, of_tokens=True),
    "perplexity": Metric("perplexity", False, of_tokens=True),
    "bits_per_char": Metric("bits per character", False, of_tokens=True),
    "accuracy": Metric("accuracy", True, "%"),
    "macro_f1": Metric("macro F1", True),
    "entity_f1": Metric("entity F1", True),
    "f1": Metric("F1 of answers' words", True, "%"),
    "mrr": Metric("mean reciprocal rank", True),
    "rmse": Metric("root mean squared error", False),
    "mse": Metric("mean squared error", False),
}


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return `exact_match` (0 to 1), and `bleu`, `bleu_lc_tok` (lowercased) and `chrf` (0 to 100).

    The last three also have a sacreBLEU signature, such as `bleu_signature`. Its tokenizer depends on the
    script of the references (see `bleu_tokenizer`). A line feed in a text counts as a space, since
    sacreBLEU's command reads one text per line.
    """
    from sacrebleu.metrics import BLEU, CHRF

    scores: dict[str, Any] = {"exact_match": accuracy(hypotheses, references)}
    hyps, refs = [list(map(on_one_line, texts)) for texts in (hypotheses, references)]
    tokenize = bleu_tokenizer(refs)
    metrics = {
        "bleu": BLEU(tokenize=tokenize),
        "bleu_lc_tok": BLEU(lowercase=True, tokenize=tokenize),
        "chrf": CHRF(),
    }
    for name, metric in metrics.items():
        statistics = metric._extract_corpus_statistics(hyps, [refs])
        scores[name] = Score(statistics, "chrf" if name == "chrf" else "bleu")
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores


def bleu_tokenizer(references: Sequence[str]) -> str:
    """Choose sacreBLEU's tokenizer: "zh" for Chinese, "char" for other scripts without spaces, else "13a"."""
    text = " ".join(references)
    unspaced = UNSPACED_CHARACTER.findall(text)
    if 2 * len(unspaced) <= len(scored_words(text)):
        return "13a"
    chinese = sum("\u3400" <= character <= "\u9fff" for character in unspaced)
    return "zh" if chinese > 0.9 * len(unspaced) else "char"  # a Japanese text has kana


def on_one_line(text: str) -> str:
    """Replace line feeds with spaces."""
    return text.replace("\n", " ")
