"""What labels and other tasks take from the grammar of a sentence: entities, questions, other moods."""

from __future__ import annotations

import re
from typing import Any

from minitransformer.data.phrasebook import NEGATION, QUESTION, STATEMENT

from .grammar import Parts, Phrase, Sentence, join_english, negative
from .lexicon import ADJECTIVES, IL, words

_TYPES = {
    "person": "people family friends",
    "animal": "animals cattle",
    "food": "food dishes drinks",
    "place": "places",
    "thing": "things clothes openings furniture others",
    "topic": "subjects",
    "time": "time",
}
ENTITY_TYPES = {kind: entity for entity, kinds in _TYPES.items() for kind in kinds.split()}


def columns_of(sentence: Sentence) -> dict[str, Any]:
    """What the row of a sentence says beside its two texts."""
    parts = sentence.parts
    columns: dict[str, Any] = {
        "mode": parts.mode,
        "subject": join_english(parts.subject.english),
        "verb": parts.verb,
    }
    if kind := object_type(parts):
        columns["object"] = kind
    if parts.subject.english not in ("there", "this", "these"):
        columns["tags"] = " ".join(tags_of(sentence))
        if parts.mode == STATEMENT:
            stop = "." if sentence[0].endswith(".") else ""
            columns["negation"] = in_mode(parts, NEGATION) + stop
            columns["question"] = in_mode(parts, QUESTION)
            if parts.is_clause:
                columns["asked"] = asked(parts)
                if parts.subject.person == IL and not parts.reference:
                    columns["short"] = in_short(parts)
    if parts.reference:
        columns["reference"] = parts.reference
    if parts.sense:
        columns["sense"] = parts.sense
    return columns


def object_type(parts: Parts) -> str | None:
    """The type of the direct object: a person, an animal, food, a place or a thing. None without one."""
    for phrase in parts.rest:
        if phrase.kind and phrase.kind != "time" and not phrase.preposition and parts.is_clause:
            return ENTITY_TYPES[phrase.kind]
    return None


def tags_of(sentence: Sentence) -> list[str]:
    """The entities among the English words, as BIO tags: B-animal is an entity's first word, I-animal any
    other."""
    parts = sentence.parts
    auxiliary, main, finite = parts.verb
    verbs = {
        QUESTION: ([(auxiliary, "")], [(main, "")]),
        NEGATION: ([], [(negative(auxiliary, parts.is_contracted), ""), (main, "")]),
        STATEMENT: ([], [(finite, "")]),
    }
    before, after = verbs[parts.mode]
    pieces = [*before, (parts.subject.english, parts.subject.kind), *after]
    for phrase in parts.rest:
        english = phrase.english.removeprefix(phrase.preposition).strip()
        pieces += [(phrase.preposition, ""), (english, phrase.kind)]
    tags: list[str] = []
    for english, kind in pieces:
        length = len(english.split())
        entity = ENTITY_TYPES.get(kind, "")
        tags += (
            [f"B-{entity}"] * min(length, 1) + [f"I-{entity}"] * (length - 1) if entity else ["O"] * length
        )
    return tags + ["O"] * (len(re.findall(r"[\w']+|[^\w\s]", sentence[0])) - len(tags))


def in_mode(parts: Parts, mode: str) -> str:
    """The English sentence as a negation or a question."""
    auxiliary, main, _ = parts.verb
    rest = [phrase.english for phrase in parts.rest]
    if mode == NEGATION:
        rest = [re.sub(r"\bsome\b", "any", text) for text in rest]
        text = join_english(parts.subject.english, negative(auxiliary), main, *rest)
    else:
        text = join_english(auxiliary, parts.subject.english, main, *rest)
    return text[0].upper() + text[1:] + ("?" if mode == QUESTION else "")


def asked(parts: Parts) -> list[tuple[str, str]]:
    """Questions about the parts of a statement, with their answers: "What did the dog chase?", "the cat"."""
    auxiliary, main, finite = parts.verb
    subject = parts.subject
    found: list[tuple[str, str]] = []
    phrases = [phrase for phrase in parts.rest if phrase.kind != "reason"]
    rest = [phrase.english for phrase in phrases]
    if subject.person == IL and subject.kind:
        word = "Who" if ENTITY_TYPES[subject.kind] == "person" else "What"
        found.append((words(word, finite, *rest), subject.english))
    for i, phrase in enumerate(phrases):
        others = words(auxiliary, subject.english, main, *rest[:i], *rest[i + 1 :])
        entity = ENTITY_TYPES.get(phrase.kind)
        if entity is None:  # a pronoun
            continue
        if entity == "time":
            found.append((f"When {others}", phrase.english))
        elif not phrase.preposition:
            found.append((f"{'Who' if entity == 'person' else 'What'} {others}", phrase.english))
        elif phrase.preposition not in ("to", "with"):
            found.append((f"Where {others}", phrase.english))
    return [(join_english(question) + "?", join_english(answer)) for question, answer in found]


def in_short(parts: Parts) -> str:
    """What the subject does, without adjectives and times: lost a red hat in the park -> lost a hat"""
    rest = [without_adjectives(phrase) for phrase in parts.rest if phrase.kind != "time"]
    return join_english(parts.verb[2], *rest[:1])


def without_adjectives(phrase: Phrase) -> str:
    kept = [word for word in phrase.english.split() if word not in ADJECTIVES]
    return " ".join("a" if word == "an" else word for word in kept)
