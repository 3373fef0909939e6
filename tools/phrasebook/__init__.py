"""The grammar of the built-in English-French corpus: thousands of correct pairs.

    python -m tools.phrasebook    # writes the files that the package reads

Four layers: tables of words, functions that combine words into phrases, functions that combine phrases into
sentences, and one function per kind of sentence that chooses its words. `draw_phrasebook` samples sentences
of every kind, and holds out 500 pairs as the test split; `columns_of` adds to each what is known of it.

What is fixed where French needs more than English says, `minitransformer/data/phrasebook.py` tells.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from minitransformer.claims.experiments import attention_of_it
from minitransformer.data import phrasebook as package
from minitransformer.data.phrasebook import DOCUMENT_SENTENCES, NEGATION, Pair, tokens_of, word_forms

from .columns import columns_of
from .documents import crossing, held_out_sentences
from .grammar import Sentence, contracted
from .order import groups_by_words
from .patterns import PATTERNS, BalancedSampler
from .reasons import giving_a_reason

HELD_OUT = 500
RARE = 16  # occurrences; words below it get more sentences


def bare(text: str) -> str:
    """The text without case and final punctuation; sentences that differ only in these are duplicates."""
    return text.rstrip(" .?").lower()


def forms_of(pair: Pair) -> list[tuple[int, str]]:
    """The words of both sides, each with its language, 0 or 1."""
    return [(language, form) for language, text in enumerate(pair) for form in word_forms(text)]


def draw_pairs(draw: BalancedSampler) -> list[Pair]:
    """The documents' sentences and samples of all patterns, without duplicates; each sample is a `Sentence`.
    Three more passes add only sentences with a rare word. Every second negation is contracted: "didn't"."""
    pairs: list[Pair] = [*DOCUMENT_SENTENCES, *held_out_sentences()]
    seen = {bare(text) for pair in pairs for text in pair}
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    negations = 0
    draws = [pattern for pattern, count in PATTERNS.items() for _ in range(count)]
    for number, pattern in enumerate(draws * 4):
        sentence = pattern(draw)
        if sentence.parts.mode == NEGATION:
            negations += 1
            sentence = contracted(sentence) if negations % 2 else sentence
        english, french = sentence
        keys = {bare(english), bare(french)}
        if keys & seen:
            continue
        forms = forms_of((english, french))
        if number >= len(draws) and all(counts[form] >= RARE for form in forms):
            continue
        stop = "." if not english.endswith("?") and not draw.chance(4) else ""
        pairs.append(Sentence(english + stop, french + stop, sentence.parts))
        seen |= keys
        counts.update(forms)
    return pairs


def draw_phrasebook(seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """The training and the test split. No sentence of either language occurs twice, the words of held-out
    pairs occur at least ten times in training, and sentences that differ only in the order of their words are
    in the same split."""
    draw = BalancedSampler(seed)
    pairs = draw_pairs(draw)
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    train: list[Pair] = []
    test: list[Pair] = list(held_out_sentences())
    for pair in test:
        counts.subtract(forms_of(pair))
    for group in sorted(groups_by_words(pairs), key=lambda _: draw.random()):
        if set(group) & set(test):
            continue
        used = Counter(form for pair in group for form in forms_of(pair))
        familiar = all(counts[form] - used[form] >= 10 for form in used)
        fits = len(test) + len(group) <= HELD_OUT
        if fits and familiar and not set(group) & set(DOCUMENT_SENTENCES):
            test += group
            counts.subtract(used)
        else:
            train += group
    return train, test


def draw_reasons(seed: int = 0, count: int = 6000) -> list[Sentence]:
    """Different sentences with "it" (not he or she); the first two are the document's."""
    draw = BalancedSampler(seed)
    drawn = [crossing("actor", "tired"), crossing("thing", "wide")]
    drawn += [giving_a_reason(draw) for _ in range(count)]
    return list({each[0]: each for each in drawn if "it" in tokens_of(each[0])}.values())


def phrasebook_rows() -> Iterator[dict[str, Any]]:
    for split, pairs in zip(("train", "test"), draw_phrasebook(), strict=True):
        for pair in pairs:
            columns = columns_of(pair) if isinstance(pair, Sentence) else {}
            yield {"split": split, "english": pair[0], "french": pair[1], **columns}


def reason_rows() -> Iterator[dict[str, Any]]:
    for pair in draw_reasons():
        yield {"english": pair[0], "french": pair[1], "reference": pair.parts.reference}


FILES = {package.FILE: phrasebook_rows, attention_of_it.FILE: reason_rows}


def to_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as compressed JSON lines, the same bytes each time."""
    path.write_bytes(gzip.compress(to_lines(rows).encode(), mtime=0))
