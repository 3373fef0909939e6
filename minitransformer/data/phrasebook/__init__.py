"""A built-in English-French corpus, written by a small grammar: thousands of correct pairs to learn from.

Four layers: tables of words, functions that join words into phrases, functions that join phrases into
sentences, and one function per kind of sentence that chooses what to say. `phrasebook()` draws sentences of
every kind, and holds out 500 pairs that training never sees.

English to French is a function here, so that a model can get every sentence right. Where French has to know
more than English tells, one choice holds everywhere: "you" is `tu`; "I", "you", "we", "they" and "them" are
masculine; the past is the passé composé, and only "was" and "were" are the imperfect; "big" is `grand`; a
question begins with `est-ce que`. Words that hide their tense or number ("read", "sheep") are left out, and
so is "it". Nothing is contracted ("do not", "cannot").
"""

import re
from collections import Counter
from dataclasses import dataclass

from .grammar import Pair
from .patterns import PATTERNS, Deal

DOCUMENT_SENTENCES: tuple[Pair, ...] = (  # always in the training split
    ("I love you", "Je t'aime"),
    ("I love AI", "J'aime l'IA"),
    ("I love cats.", "J'aime les chats."),
    ("The cat sat on the mat", "Le chat s'est assis sur le tapis"),
    ("The dog chased the cat", "Le chien a poursuivi le chat"),
)

HELD_OUT = 500
RARE = 16  # occurrences; words below it get more sentences


@dataclass(frozen=True)
class Phrasebook:
    train: list[Pair]
    test: list[Pair]


def bare(text: str) -> str:
    """What is left without case and final punctuation: sentences that share it count as the same sentence."""
    return text.rstrip(" .?").lower()


def word_forms(text: str) -> list[str]:
    """J'aime l'IA. -> J' aime l' IA"""
    return re.findall(r"[\w-]+'?", text)


def forms_of(pair: Pair) -> list[tuple[int, str]]:
    """The words of both sides, each with its language, 0 or 1."""
    return [(language, form) for language, text in enumerate(pair) for form in word_forms(text)]


def draw_pairs(deal: Deal) -> list[Pair]:
    """DOCUMENT_SENTENCES and the draws of all patterns, without repetition. A second round of draws keeps
    only sentences with a rare word."""
    pairs = list(DOCUMENT_SENTENCES)
    seen = {bare(text) for pair in pairs for text in pair}
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    draws = [pattern for pattern, count in PATTERNS.items() for _ in range(count)]
    for number, pattern in enumerate(draws * 2):
        english, french = pattern(deal)
        keys = {bare(english), bare(french)}
        if keys & seen:
            continue
        forms = forms_of((english, french))
        if number >= len(draws) and all(counts[form] >= RARE for form in forms):
            continue
        stop = "." if not english.endswith("?") and not deal.chance(4) else ""
        pairs.append((english + stop, french + stop))
        seen |= keys
        counts.update(forms)
    return pairs


def phrasebook(seed: int = 0) -> Phrasebook:
    """The whole corpus, always the same for the same seed. No sentence of either language occurs twice, and
    the words of held-out pairs occur at least ten times in training."""
    deal = Deal(seed)
    pairs = draw_pairs(deal)
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    train: list[Pair] = []
    test: list[Pair] = []
    for pair in sorted(pairs, key=lambda _: deal.random()):
        used = Counter(forms_of(pair))
        familiar = all(counts[form] - used[form] >= 10 for form in used)
        if len(test) < HELD_OUT and familiar and pair not in DOCUMENT_SENTENCES:
            test.append(pair)
            counts.subtract(used)
        else:
            train.append(pair)
    return Phrasebook(train, test)
