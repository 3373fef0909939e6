"""How good translations are: exact match, BLEU and chrF (sacreBLEU's, with its signature)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """`exact_match` (0 to 1), sacreBLEU's `bleu` of cased raw text, `bleu_lc_tok` lowercased, `chrf`."""
    from sacrebleu.metrics import BLEU, CHRF

    exact = sum(h == r for h, r in zip(hypotheses, references, strict=True)) / max(len(references), 1)
    bleu, lowercased, chrf = BLEU(), BLEU(lowercase=True), CHRF()
    hyps, refs = list(hypotheses), [list(references)]
    return {
        "exact_match": exact,
        "bleu": bleu.corpus_score(hyps, refs).score,
        "bleu_signature": str(bleu.get_signature()),
        "bleu_lc_tok": lowercased.corpus_score(hyps, refs).score,
        "chrf": chrf.corpus_score(hyps, refs).score,
    }
