"""Stories with summaries, and dialogues with replies, composed of the phrasebook's sentences.

The grammar knows the parts of each sentence, so every summary and reply is correct by construction. The
sentences of a split are those of the phrasebook's split: test sentences are never trained on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from .batching import generator
from .labels import question_of, sentence_splits
from .phrasebook import Pair, Sentence
from .phrasebook.grammar import SUBJECTS, Parts, Phrase, join_english, noun_phrase
from .phrasebook.lexicon import ADJECTIVES, IL, JE, NOUNS
from .prefixes import statements
from .rows import history

STORIES, DIALOGUES = 16, 17  # random streams
HELD_OUT = 500  # examples of the validation split, and of the test split
UNKNOWN = "I do not know."

Splits = dict[str, list[Pair]]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _clauses(sentences: Sequence[Sentence], persons: Sequence[int]) -> list[Parts]:
    """The statements whose subject is one of these persons. Reasons ("because it was tired") would be about
    another subject."""
    found = [s.parts for s in statements(sentences) if s.parts.is_clause and not s.parts.reference]
    return [parts for parts in found if parts.subject.person in persons]


# ---------------------------------------------------------------- stories


@cache
def summaries(count: int = 20_000) -> Splits:
    """Stories of 4 to 6 sentences about two or three people, and what the one with the most sentences did.

    Paul sat in the park yesterday. The queen sang. She lost a red hat. She can see my mother in the street.
    -> The queen sang, lost a hat and can see my mother.
    """
    return _splits(STORIES, count, lambda sentences: (_story, _clauses(sentences, [IL])))


def _story(draw: np.random.Generator, clauses: Sequence[Parts]) -> Pair:
    people = [_PEOPLE[i] for i in draw.permutation(len(_PEOPLE))[: draw.integers(2, 4)]]
    about = [people[0]] * 3 + people[1:] + people[1:2] * int(draw.integers(2))
    about = [about[i] for i in draw.permutation(len(about))]
    told = [clauses[i] for i in draw.integers(0, len(clauses), len(about))]
    text = []
    for before, subject, parts in zip([None, *about], about, told, strict=False):
        name = ("she" if subject.feminine else "he") if subject is before else subject.english
        text.append(_capital(join_english(name, parts.verb[2], *(p.english for p in parts.rest))) + ".")
    first, second, third = (
        join_english(parts.verb[2], *map(_in_short, [p for p in parts.rest if p.kind != "time"][:1]))
        for subject, parts in zip(about, told, strict=True)
        if subject is people[0]
    )
    return " ".join(text), f"{_capital(people[0].english)} {first}, {second} and {third}."


_PEOPLE = [
    *(phrase for phrase in SUBJECTS.values() if phrase.kind == "people"),
    *(noun_phrase("the", name) for name, noun in NOUNS.items() if noun.kind in ("people", "friends")),
    *(noun_phrase("my", name) for name in ("mother", "father", "brother", "sister")),
]


def _in_short(phrase: Phrase) -> str:
    """The phrase without its adjectives."""
    kept = [word for word in phrase.english.split() if word not in ADJECTIVES]
    return " ".join("a" if word == "an" else word for word in kept)


# ---------------------------------------------------------------- dialogues


@cache
def dialogues(count: int = 20_000) -> Splits:
    """The turns of a dialogue so far, and the reply, which remembers what was said and takes the user's view.

    user: I am Marie. bot: Hello, Marie. user: I lost my hat. bot: You lost your hat. user: What did I lose?
    -> Your hat.
    """
    return _splits(DIALOGUES, count, lambda sentences: (_dialogue, _told_and_asked(sentences)))


def _told_and_asked(sentences: Sequence[Sentence]) -> list[Parts]:
    """Statements about the speaker, and about others by their names."""
    return [p for p in _clauses(sentences, [JE, IL]) if p.subject.english not in ("he", "she")]


_NAMES = ("Paul", "Thomas", "Marie", "Alice")


def _dialogue(draw: np.random.Generator, clauses: Sequence[Parts]) -> Pair:
    name = ""
    told: list[Parts] = []
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
        elif all(new.verb[1] != parts.verb[1] for parts in told):  # a question must fit one statement only
            if what < 0.5:
                turns += _question(draw, new, known=False)
            else:
                told.append(new)
                turns.append((f"{_capital(_spoken(new))}.", _reaction(new)))
    if told and draw.random() < 0.6:  # a reply that needs the turns before
        turns += _question(draw, told[int(draw.integers(len(told)))], known=True)
    elif not turns or draw.random() < 0.1:
        turns.append(("Goodbye.", f"Goodbye, {name}." if name else "Goodbye."))
    *before, (last, reply) = turns
    return history([*before, (last, "")]), reply


def _spoken(parts: Parts) -> str:
    return join_english(parts.subject.english, parts.verb[2], *(p.english for p in parts.rest))


def _reaction(parts: Parts) -> str:
    """What the user said, from the bot's point of view: I am eating my soup -> You are eating your soup."""
    if parts.subject.person != JE:
        return "I see."
    return _capital(_other_view(_spoken(parts))) + "."


_OTHER_VIEW = {"I": "you", "am": "are", "me": "you", "my": "your", "your": "my", "you": "me"}


def _other_view(text: str) -> str:
    return " ".join(_OTHER_VIEW.get(word, word) for word in text.split())


def _question(draw: np.random.Generator, parts: Parts, known: bool) -> list[tuple[str, str]]:
    """A question about a statement and its answer, if there is one."""
    found = question_of(parts, int(draw.integers(4)))
    if found is None:
        return []
    question, answer = found
    return [(question, f"{_capital(_other_view(answer))}." if known else UNKNOWN)]


# ---------------------------------------------------------------- both


def _splits(
    stream: int, count: int, prepare: Callable[[Sequence[Sentence]], tuple[Callable, list[Parts]]]
) -> Splits:
    """`count` different training examples, and HELD_OUT each for validation and test."""
    splits: Splits = {"train": []}
    seen: set[str] = set()
    for number, name in enumerate(("test", "validation", "train")):  # first what is held out
        make, clauses = prepare(sentence_splits()[name])
        draw = generator(number, stream, len(clauses))
        splits[name] = []
        while len(splits[name]) < (count if name == "train" else HELD_OUT):
            source, target = make(draw, clauses)
            if source not in seen:
                seen.add(source)
                splits[name].append((source, target))
    return splits
