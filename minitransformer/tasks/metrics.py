"""Translation metrics: exact match, and sacreBLEU's BLEU (with its signature) and chrF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def translation_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """`exact_match` (0 to 1), `bleu` of cased raw text, `bleu_lc_tok` of lowercased text, `chrf`."""
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
