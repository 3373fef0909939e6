"""Sentences with words of two senses, for which French has two words; the rest of the sentence decides.

The woman stayed near the bank with her money. -> ... près de la banque ...
The woman stayed near the bank with her boat.  -> ... près de la rive ...

Without a sign of a river, a bank is one of money: "I went to the bank", je suis allé à la banque.
"""

from __future__ import annotations

from dataclasses import replace

from .choices import BalancedSampler, some_mode, some_noun, some_subject, some_tense, some_time
from .grammar import (
    NEGATION,
    Phrase,
    Sense,
    Sentence,
    after,
    agree,
    clause,
    description,
    noun_phrase,
    places_of,
)
from .lexicon import ADJECTIVES, NOUNS, Noun, words

SENSES: dict[tuple[str, str], Noun] = {
    ("bank", "money"): Noun(("bank", "banks"), ("banque", "banques"), True, "places"),
    ("bank", "river"): Noun(("bank", "banks"), ("rive", "rives"), True, "places"),
    ("bat", "animal"): Noun(("bat", "bats"), ("chauve-souris", "chauves-souris"), True, "animals"),
    ("bat", "sport"): Noun(("bat", "bats"), ("batte", "battes"), True, "others"),
    ("light", "lamp"): Noun(("light", "lights"), ("lumière", "lumières"), True, "others"),
    # ("light", "weight") is an adjective
}


def with_sense(made: Sentence, word: str, meaning: str, french: str = "", clue: str = "") -> Sentence:
    """The sentence, which knows what its word means; `clue` is the noun that says so, if a noun does."""
    noun = SENSES.get((word, meaning))
    place = places_of(made, word, french or noun.french[0] if noun else french)
    decides = places_of(made, NOUNS[clue].english[0], NOUNS[clue].french[0]) if clue else None
    return Sentence(*made, replace(made.parts, sense=Sense(word, meaning, place, decides)))


def belonging(subject: Phrase) -> str:
    """The determiner of what belongs to the subject: her money, their boat."""
    if subject.feminine and subject.person == 2:
        return "her"
    return ("my", "your", "his", "our", "their")[subject.person]


def being_near_a_bank(draw: BalancedSampler) -> Sentence:
    """She works at the bank, elle travaille à la banque. She sat near the bank with her boat, elle s'est
    assise près de la rive avec son bateau."""
    verb = draw("go arrive work stay sit sleep sing play", "bank")
    meaning = "money" if verb == "work" else draw("money river", "bank", verb)
    near = "near" if meaning == "money" else draw("near on", "bank")
    preposition = {"go": "to", "arrive": "at", "work": "at"}.get(verb, near)
    clue = draw({"money": "nothing money street", "river": "boat river bridge"}[meaning])
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    bank = noun_phrase(draw("the the this", "bank", meaning), SENSES["bank", meaning])
    rest = []
    match clue:
        case "nothing":
            clue = ""
            if draw.chance(2):
                rest.append(some_time(draw, tense))
        case "money" | "boat":
            rest.append(after("with", noun_phrase(belonging(subject), clue)))
        case "river":
            bank = followed_by(bank, "of", noun_phrase("the", "river"))
        case "street" | "bridge":
            rest.append(after({"street": "in", "bridge": "under"}[clue], noun_phrase("the", clue)))
    mode = some_mode(draw, subject, "bank")
    made = clause(mode, tense, subject, verb, after(preposition, bank), *rest)
    return with_sense(made, "bank", meaning, clue=clue)


def followed_by(phrase: Phrase, preposition: str, other: Phrase) -> Phrase:
    """the bank of the river, la rive de la rivière"""
    more = after(preposition, other)
    return replace(
        phrase, english=words(phrase.english, more.english), french=words(phrase.french, more.french)
    )


def describing_a_bank(draw: BalancedSampler) -> Sentence:
    """The bank of the river was wide, la rive de la rivière était large."""
    meaning = draw("money river", "describe")
    clue = "river" if meaning == "river" else ""
    bank = noun_phrase(draw("the the this", "bank", meaning), SENSES["bank", meaning])
    if clue:
        bank = followed_by(bank, "of", noun_phrase("the", clue))
    adjective = draw("beautiful big small narrow wide cold old", "bank", meaning)
    made = description(some_mode(draw, bank, "bank"), draw.chance(2), bank, adjective)
    return with_sense(made, "bank", meaning, clue=clue)


def describing_a_bat(draw: BalancedSampler) -> Sentence:
    """The bat is hungry, la chauve-souris a faim. The bat is heavy, la batte est lourde."""
    meaning = draw("animal sport", "describe")
    bat = noun_phrase(draw("the the this my her", "bat", meaning), SENSES["bat", meaning])
    adjective = draw({"animal": "tired hungry thirsty afraid ill happy", "sport": "new heavy hard"}[meaning])
    too = adjective in ("tired", "heavy", "hard") and draw.chance(2)
    made = description(some_mode(draw, bat, "bat"), draw.chance(2), bat, adjective, too=too)
    return with_sense(made, "bat", meaning)


def seeing_a_bat(draw: BalancedSampler) -> Sentence:
    """I found the bat in the tree, j'ai trouvé la chauve-souris dans l'arbre. I found the bat with the ball,
    j'ai trouvé la batte avec la balle. I carried a bat, j'ai porté une batte."""
    verb = draw("see find look_for watch see find look_for watch chase help carry buy want", "bat").replace(
        "_", " "
    )
    meaning = {"chase": "animal", "help": "animal", "carry": "sport", "buy": "sport", "want": "sport"}.get(
        verb
    )
    by_verb = meaning is not None
    meaning = meaning or draw("animal sport", verb)
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    mode = some_mode(draw, subject, "bat")
    bat = noun_phrase(
        draw("the the a", "bat", verb, meaning), SENSES["bat", meaning], negated=mode == NEGATION
    )
    clue = ""
    rest = [bat]
    if not by_verb:
        clue = draw({"animal": "tree bridge", "sport": "ball toy"}[meaning])
        preposition = {"tree": "in", "bridge": "under"}.get(clue, "with")
        rest.append(after(preposition, noun_phrase("the", clue)))
    return with_sense(clause(mode, tense, subject, verb, *rest), "bat", meaning, clue=clue)


def light_things(draw: BalancedSampler) -> Sentence:
    """The bag is light, le sac est léger. The light is white, la lumière est blanche."""
    meaning = draw("lamp weight weight", "describe")
    past = draw.chance(2)
    if meaning == "lamp":
        light = noun_phrase(draw("the the this", "light"), SENSES["light", "lamp"])
        adjective = draw("white red blue beautiful small", "light")
        made = description(some_mode(draw, light, "light"), past, light, adjective)
        return with_sense(made, "light", meaning)
    name = draw("box bag book chair hat coat phone computer shirt door table", "light")
    thing = some_noun(draw, name, plain=True, definite=True)
    made = description(some_mode(draw, thing, "light"), past, thing, "light")
    return with_sense(made, "light", meaning, light_in_french(thing))


def seeing_a_light(draw: BalancedSampler) -> Sentence:
    """She saw the light in the kitchen, elle a vu la lumière dans la cuisine. She carried a light bag, elle a
    porté un sac léger."""
    meaning = draw("lamp weight", "see")
    verb = draw(
        {"lamp": "see find look_for watch", "weight": "see find look_for carry buy want"}[meaning], "light"
    )
    verb = verb.replace("_", " ")
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    mode = some_mode(draw, subject, "light")
    negated = mode == NEGATION
    if meaning == "weight":
        name = draw("bag box book chair hat coat phone computer shirt", "light", verb)
        thing = noun_phrase(draw("a a the this my", "light", verb), name, "light", negated=negated)
        made = clause(mode, tense, subject, verb, thing)
        return with_sense(made, "light", meaning, light_in_french(thing))
    light = noun_phrase(draw("the the a", "light", verb), SENSES["light", "lamp"], negated=negated)
    rest = [light]
    if not draw.chance(3):
        place = draw("kitchen garden church house museum street", "light")
        rest.append(after("in", noun_phrase("the", place)))
    return with_sense(clause(mode, tense, subject, verb, *rest), "light", meaning)


def light_in_french(thing: Phrase) -> str:
    return agree(ADJECTIVES["light"].masculine, ADJECTIVES["light"].feminine, thing)
