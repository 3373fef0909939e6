"""Sentences with a reason: "it" stands for one of two nouns, and only the adjective says for which.

The animal did not cross the street because it was too tired. -> ... parce qu'il était trop fatigué.
The animal did not cross the street because it was too wide.  -> ... parce qu'elle était trop large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .choices import DETERMINERS_OF, PERSONS, BalancedSampler, some_noun
from .grammar import NEGATION, STATEMENT, Pair, Phrase, Reference, Sentence, after, clause, places_of, reason
from .lexicon import NEEDS, NOUNS


@dataclass(frozen=True)
class Scene:
    """What somebody does to a thing or on a thing, and why, or why not: because of how the actor is, or how
    the thing is. No adjective suits both."""

    verb: str
    preposition: str
    things: str
    actor_why: str
    thing_why: str
    thing_why_not: str
    actor_why_not: str = "tired ill sad afraid"

    @property
    def reasons(self) -> dict[tuple[str, str], str]:
        return {
            ("actor", STATEMENT): self.actor_why,
            ("actor", NEGATION): self.actor_why_not,
            ("thing", STATEMENT): self.thing_why,
            ("thing", NEGATION): self.thing_why_not,
        }


SCENES = (
    Scene("cross", "", "street", "hungry thirsty afraid happy", "narrow", "wide"),
    Scene("cross", "", "river", "hungry thirsty afraid happy", "narrow", "wide deep cold"),
    Scene("cross", "", "bridge", "hungry thirsty afraid happy", "wide", "narrow"),
    Scene("eat", "", "fish meat soup cake", "hungry happy", "delicious", "hot cold"),
    Scene("eat", "", "bread cheese apple egg tomato", "hungry happy", "delicious", "hard cold"),
    Scene("drink", "", "milk water", "thirsty happy", "delicious", "hot cold"),
    Scene("sit", "on", "mat bed chair", "tired ill sad", "comfortable", "hard cold narrow", "hungry afraid"),
    Scene("sit", "on", "table", "tired ill sad", "wide", "hard cold narrow", "hungry afraid"),
    Scene(
        "sleep", "on", "mat bed chair", "tired ill sad", "comfortable", "hard cold narrow", "hungry afraid"
    ),
    Scene("carry", "", "box bag book chair hat", "happy", "light", "heavy"),
    Scene("open", "", "box door window bag", "hungry happy", "light", "heavy"),
)
ANIMALS = "cat dog bird mouse mouse owl rabbit goat goat fox animal animal horse cow cow"
COUPLES = "man woman boy girl king queen prince princess father mother uncle aunt brother sister"


def giving_a_reason(draw: BalancedSampler) -> Sentence:
    """The cat sat on the mat because it was tired, le chat s'est assis sur le tapis parce qu'il était
    fatigué."""
    scene = SCENES[int(draw(tuple(map(str, range(len(SCENES))))))]
    actor = draw(COUPLES if draw.chance(3) else ANIMALS, "reason")
    thing = draw(scene.things, scene.verb)
    mode = draw((STATEMENT, NEGATION), scene.verb)
    past = not draw.chance(3)
    about = draw(("actor", "thing"), scene.verb, thing, mode)
    adjective = draw(scene.reasons[about, mode], scene.verb, about, mode)
    too = mode == NEGATION and adjective not in NEEDS and not draw.chance(4)
    link = "," if mode == STATEMENT and past and draw.chance(6) else "because"

    subject = some_noun(draw, actor, (DETERMINERS_OF[NOUNS[actor].kind][0], ""), plain=not draw.chance(3))
    determiners = "the the this" if NOUNS[thing].kind == "places" else "the the the this my"
    place = some_noun(draw, thing, (determiners, ""), plain=True)
    if scene.preposition:
        place = after(scene.preposition, place)
    return with_reason(mode, past, (actor, subject), scene.verb, (thing, place), about, adjective, too, link)


def with_reason(
    mode: str,
    past: bool,
    actor: tuple[str, Phrase],
    verb: str,
    thing: tuple[str, Phrase],
    about: str,
    adjective: str,
    too: bool = False,
    link: str = "because",
) -> Sentence:
    """A sentence with a reason, which knows what its pronoun refers to: the actor or the thing (`about`).
    Both come with the name of their noun."""
    noun, other = (actor[0], thing[0]) if about == "actor" else (thing[0], actor[0])
    pronoun = pronoun_of(noun)
    why = reason(past, pronoun, adjective, too, link)
    made = clause(mode, "past" if past else "present", actor[1], verb, thing[1], why)
    reference = Reference(
        places_of(made, pronoun.english, pronoun.french),
        places_of_noun(made, noun),
        places_of_noun(made, other),
    )
    return Sentence(*made, replace(made.parts, reference=reference))


def pronoun_of(name: str) -> Phrase:
    """it, he or she: il or elle"""
    noun = NOUNS[name]
    person = ("he", "she")[noun.feminine] if noun.kind in PERSONS.split() else "it"
    return Phrase(person, ("il", "elle")[noun.feminine], feminine=noun.feminine)


def places_of_noun(pair: Pair, name: str) -> tuple[int, int]:
    return places_of(pair, NOUNS[name].english[0], NOUNS[name].french[0])
