"""The sentences that documents about the Transformer take as examples, and give without a translation."""

from __future__ import annotations

from minitransformer.data.phrasebook import NEGATION, STATEMENT

from .grammar import SUBJECTS, Phrase, Sentence, after, clause, contracted, noun_phrase
from .order import headline
from .reasons import with_reason
from .senses import SENSES, with_sense


def the(name: str, adjective: str = "") -> tuple[str, Phrase]:
    return name, noun_phrase("the", name, adjective)


def on_the_mat() -> tuple[str, Phrase]:
    return "mat", after("on", noun_phrase("the", "mat"))


def crossing(about: str, adjective: str) -> Sentence:
    return with_reason(NEGATION, True, the("animal"), "cross", the("street"), about, adjective, too=True)


def with_stop(sentence: Sentence) -> Sentence:
    return Sentence(sentence[0] + ".", sentence[1] + ".", sentence.parts)


def held_out_sentences() -> list[Sentence]:
    """Sentences that the documents give without a translation. They are in the test split."""
    bank = noun_phrase("the", SENSES["bank", "money"])
    went = clause(STATEMENT, "past", SUBJECTS["I"], "go", after("to", bank))
    fox, dog = the("fox", "quick brown")[1], the("dog", "lazy")[1]
    return [
        with_stop(contracted(crossing("actor", "tired"))),
        with_stop(contracted(crossing("thing", "wide"))),
        with_reason(STATEMENT, True, the("cat"), "sit", on_the_mat(), "actor", "tired"),
        with_reason(STATEMENT, True, the("cat"), "eat", the("fish"), "thing", "delicious", link=","),
        with_stop(headline("bite", "dog", "man")),
        with_stop(headline("bite", "man", "dog")),
        with_stop(with_sense(went, "bank", "money")),
        with_stop(clause(STATEMENT, "past", fox, "jump", after("over", dog))),
    ]
