"""Stories with summaries, and dialogues with replies, composed of the phrasebook's sentences.

The phrasebook has annotations of each sentence, so every summary and reply is correct by construction. A
split has only sentences of the same split of the phrasebook: test sentences are never trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from .batching import generator
from .phrasebook import Pair, Sentence, sentence_splits
from .rows import history

STORIES, DIALOGUES = 16, 17  # numbers of random streams
HELD_OUT = 500  # number of examples in the validation split, and in the test split
UNKNOWN = "I do not know."

Splits = dict[str, list[Pair]]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


# ---------------------------------------------------------------- stories


@cache
def summaries(count: int = 20_000) -> Splits:
    """Stories of 4 to 6 sentences about 2 or 3 people, with a summary of what one of them did.

    The person of the summary has three sentences. An example:

    Paul sat in the park yesterday. The queen sang. She lost a red hat. She can see my mother in the street.
    -> The queen sang, lost a hat and can see my mother.
    """
    return _splits(STORIES, count, lambda sentences: (_story, [pair for pair in sentences if pair.short]))


def _story(draw: np.random.Generator, clauses: Sequence[Sentence]) -> Pair:
    people = [_PEOPLE[i] for i in draw.permutation(len(_PEOPLE))[: draw.integers(2, 4)]]
    about = [people[0]] * 3 + people[1:] + people[1:2] * int(draw.integers(2))
    about = [about[i] for i in draw.permutation(len(about))]
    told = [clauses[i] for i in draw.integers(0, len(clauses), len(about))]
    text = []
    for before, person, pair in zip([None, *about], about, told, strict=False):
        what = pair[0].removesuffix(".").split()[len(pair.subject.split()) :]
        name = person if person != before else "she" if person.split()[-1] in _WOMEN else "he"
        text.append(" ".join([_capital(name), *what]) + ".")
    first, second, third = (
        pair.short for person, pair in zip(about, told, strict=True) if person == people[0]
    )
    return " ".join(text), f"{_capital(people[0])} {first}, {second} and {third}."


_WOMEN = {"Marie", "Alice", "woman", "girl", "queen", "princess", "mother", "sister"}
_PEOPLE = [
    *("Paul", "Thomas", "Marie", "Alice", "the man", "the woman", "the boy", "the girl", "the king"),
    *("the queen", "the hero", "the prince", "the princess", "the friend", "the teacher", "the doctor"),
    *("the student", "my mother", "my father", "my brother", "my sister"),
]


# ---------------------------------------------------------------- dialogues


@cache
def dialogues(count: int = 20_000) -> Splits:
    """Dialogues so far, each with the bot's next reply, which refers to what was said before. An example:

    user: I am Marie. bot: Hello, Marie. user: I lost my hat. bot: You lost your hat. user: What did I lose?
    -> Your hat.
    """
    return _splits(DIALOGUES, count, lambda sentences: (_dialogue, _told_and_asked(sentences)))


def _told_and_asked(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences that a dialogue states and asks about: about "I", or about others but not "he" or "she".

    Sentences of "I" with a reason ("because it was tired") are left out, as the reason has another subject.
    """
    about_me = lambda pair: pair.subject == "I" and pair.asked is not None and not pair.reference
    return [p for p in sentences if about_me(p) or (p.short and p.subject not in ("he", "she"))]


_NAMES = ("Paul", "Thomas", "Marie", "Alice")


def _dialogue(draw: np.random.Generator, clauses: Sequence[Sentence]) -> Pair:
    name = ""
    told: list[Sentence] = []
    turns: list[tuple[str, str]] = []
    if draw.random() < 0.7:
        name = _NAMES[int(draw.integers(len(_NAMES)))]
        turns.append((f"I am {name}.", f"Hello, {name}."))
    for _ in range(draw.integers(1, 5)):
        new = clauses[int(draw.integers(len(clauses)))]
        what = draw.random()
        if what < 0.1:
            turns.append(("Who am I?", f"You are {name}." if name else UNKNOWN))
        elif what < 0.4 and told:
            turns += _question(draw, told[int(draw.integers(len(told)))], known=True)
        elif all(new.verb[1] != pair.verb[1] for pair in told):  # so that a question fits only one statement
            if what < 0.5:
                turns += _question(draw, new, known=False)
            else:
                told.append(new)
                turns.append((new[0].removesuffix(".") + ".", _reaction(new)))
    if told and draw.random() < 0.6:  # end with a reply that depends on earlier turns
        turns += _question(draw, told[int(draw.integers(len(told)))], known=True)
    elif not turns or draw.random() < 0.1:
        turns.append(("Goodbye.", f"Goodbye, {name}." if name else "Goodbye."))
    *before, (last, reply) = turns
    return history([*before, (last, "")]), reply


def _reaction(pair: Sentence) -> str:
    """The bot's reply to a statement: "You are eating your soup." to "I am eating my soup", or "I see."."""
    said = pair[0].removesuffix(".")
    return f"{_capital(_other_view(said))}." if pair.subject == "I" else "I see."


_OTHER_VIEW = {"I": "you", "am": "are", "me": "you", "my": "your", "your": "my", "you": "me"}


def _other_view(text: str) -> str:
    return " ".join(_OTHER_VIEW.get(word, word) for word in text.split())


def _question(draw: np.random.Generator, pair: Sentence, known: bool) -> list[tuple[str, str]]:
    """The turns of a question about a statement: one, or none if the statement has no questions.

    The answer is "I do not know." if the statement is not `known`.
    """
    number = int(draw.integers(4))
    if not pair.asked:
        return []
    question, answer = pair.asked[number % len(pair.asked)]
    return [(question, f"{_capital(_other_view(answer))}." if known else UNKNOWN)]


# ---------------------------------------------------------------- both


def _splits(
    stream: int, count: int, prepare: Callable[[Sequence[Sentence]], tuple[Callable, list[Sentence]]]
) -> Splits:
    """`count` different training examples, and HELD_OUT examples each for validation and test.

    `prepare` takes a split's sentences, and returns a function that makes an example, and its sentences.
    """
    splits: Splits = {"train": []}
    seen: set[str] = set()
    for number, name in enumerate(("test", "validation", "train")):  # held-out splits first
        make, clauses = prepare(sentence_splits()[name])
        draw = generator(number, stream, len(clauses))
        splits[name] = []
        while len(splits[name]) < (count if name == "train" else HELD_OUT):
            source, target = make(draw, clauses)
            if source not in seen:
                seen.add(source)
                splits[name].append((source, target))
    return splits
