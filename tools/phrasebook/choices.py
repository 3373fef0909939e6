"""What a sentence can be made of, and how its words are drawn: each choice is balanced over its options."""

import random
from collections.abc import Hashable
from functools import cache

from .grammar import NEGATION, QUESTION, STATEMENT, SUBJECTS, Phrase, after, noun_phrase
from .lexicon import JE, MODALS, NOUN_TABLE, NOUNS, TIMES


class BalancedSampler:
    """Samples options (a tuple, or the words of a string) without replacement, and starts over when all are
    used, so that each is equally frequent. Contexts are separate: every verb gets every subject, for
    example."""

    def __init__(self, seed: int):
        self.random = random.Random(seed).random  # the method whose numbers all Python versions agree on
        self.remaining: dict[Hashable, list[str]] = {}

    def __call__(self, options: str | tuple[str, ...], *context: str) -> str:
        remaining = self.remaining.setdefault((options, context), [])
        if not remaining:
            choices = options.split() if isinstance(options, str) else options
            remaining.extend(sorted(choices, key=lambda _: self.random()))
        return remaining.pop()

    def chance(self, one_in: int) -> bool:
        return self.random() * one_in < 1


KINDS = {kind: " ".join(name for name, noun in NOUNS.items() if noun.kind == kind) for kind in NOUN_TABLE}
PERSONS = "people family friends"
BEINGS = "people family friends animals cattle"
SINGULAR_ONLY = ("mother", "father", "uncle", "aunt")
OWNERS = "my your his her our their"
DETERMINERS_OF = {  # for one and for many
    "people": ("the the a this", "the the this two three"),
    "family": (OWNERS, OWNERS),
    "friends": (f"the a this {OWNERS}", "the two my our their"),
    "animals": ("the the a this my her their", "the the this two three my your"),
    "cattle": ("the the a this my", "the the this two three our"),
    "things": ("the the a this my your his", "the the this two three my our their"),
    "clothes": ("the a this my your his her", "the this my your her their"),
    "openings": ("the the this", "the the this two three"),
    "food": ("the the a this your", "the the this some two three"),
    "dishes": ("the the this some my", ""),
    "drinks": ("the the this some your", ""),
    "places": ("the the this a", ""),
    "furniture": ("the the this my", ""),
    "subjects": ("general", ""),
}
COLOURS = "black white red blue brown"
MOODS = "happy sad tired ill"
ATTRIBUTES = {  # adjectives that suit each kind of noun
    "people": "young old small beautiful lazy",
    "family": "",
    "friends": "young old new good",
    "animals": "young old small beautiful black white brown quick lazy quick_brown small_white",
    "cattle": "young old small beautiful black white",
    "things": f"new old small big beautiful {COLOURS}",
    "clothes": f"new old beautiful {COLOURS}",
    "openings": f"new old small big {COLOURS}",
    "food": "good small",
    "dishes": "good cold",
    "drinks": "good hot cold",
    "places": "old small big beautiful",
    "furniture": f"new old small big beautiful {COLOURS}",
    "subjects": "",
    "others": "",
}
PREDICATES = {  # those that can follow "is"
    kind: f"{MOODS} young old small beautiful lazy"
    if kind in BEINGS.split()
    else attributes.replace("new ", "")
    for kind, attributes in ATTRIBUTES.items()
}

TENSES = "present present progressive past past modal"
TENSES_OF = {  # where not all of them sound right
    **dict.fromkeys(("know", "have", "want"), "present"),
    **dict.fromkeys(("love", "like", "hate"), "present past"),
    **dict.fromkeys(("see", "find"), "present past modal"),
    "live": "present",
    **dict.fromkeys(("arrive", "lose"), "present progressive past past"),
    "sit": "past past modal",
}
WHO = {  # who does it, where it is not only persons
    **dict.fromkeys(("see", "chase", "watch", "eat", "need"), BEINGS),
    **dict.fromkeys(("sleep", "hide", "sit", "jump"), f"{PERSONS} animals"),
    "bite": "people animals",
}
OBJECTS = {
    "love": "people family friends animals cattle things clothes places",
    "like": "people family friends animals cattle things clothes places dishes",
    "hate": "people animals things clothes places dishes",
    "see": "people family friends animals cattle things places",
    "know": "people family friends museum park church hotel",
    "help": "people family friends",
    "find": "animals cattle things clothes",
    "lose": "things clothes",
    "chase": "people animals cattle",
    "bite": "people animals cattle",
    "cross": "street river bridge garden park",
    "carry": "things",
    "watch": "people family friends animals cattle",
    "look for": "people family friends animals things clothes",
    "wait for": "people family friends",
    "eat": "food dishes",
    "drink": "drinks",
    "buy": "cattle things clothes food dishes drinks",
    "open": "openings box book letter",
    "write": "book letter",
    "wear": "clothes",
    "study": "subjects",
    "want": "things clothes food",
}
WHERE = {
    "sleep": "in on", "work": "in at", "sing": "in at", "play": "in behind near", "arrive": "at", "go": "to",
    "stay": "in at near", "hide": "in under behind", "sit": "on in under near",
    "jump": "over", "live": "in near",
}  # fmt: skip
ENDINGS = {
    "go": "place",
    "sit": "place",
    "stay": "place",
    "jump": "place",
    "live": "place",
    "leave": "time nothing",
}
PLACES = {
    "in": "house garden school museum park church hotel kitchen street",
    "on": "mat table chair bed",
    "under": "table bed tree",
    "behind": "house church tree door",
    "over": "dog cat mouse rabbit fox goat box table chair bed river",
    "near": "house school park church hotel market station tree window river bridge palace",
    "at": "school museum market station hotel",
    "to": "school museum park church hotel market station",
}
WHEN = {
    "present": ("every day", "in the morning"),
    "progressive": ("now", "today"),
    "past": ("yesterday", "this morning"),
}


def some_mode(draw: BalancedSampler, subject: Phrase, *context: str) -> str:
    if subject.person == JE:  # people rarely ask what they themselves are doing
        return draw((STATEMENT, STATEMENT, STATEMENT, NEGATION, NEGATION, QUESTION), *context)
    return draw((STATEMENT, STATEMENT, NEGATION, QUESTION), *context)


def some_tense(draw: BalancedSampler, verb: str) -> str:
    tense = draw(TENSES_OF.get(verb, TENSES), verb)
    return draw(tuple(MODALS), verb) if tense == "modal" else tense


def some_noun(
    draw: BalancedSampler,
    options: str,
    determiners: tuple[str, str] | None = None,  # for one, for many
    negated: bool = False,
    definite: bool = False,
    plain: bool = False,
) -> Phrase:
    """A noun of a kind or by its name, with a determiner and, unless it is plain, at times an adjective."""
    option = draw(options)
    name = draw(KINDS.get(option, option))
    kind = NOUNS[name].kind
    one, many = determiners or DETERMINERS_OF[kind]
    plural = not one or (many != "" and name not in SINGULAR_ONLY and draw.chance(3))
    determiner = draw(many if plural else one, kind)
    if definite and determiner in ("a", "some", "two", "three"):
        determiner = "the"
    adjective = ""
    if ATTRIBUTES[kind] and not plain and not (plural and determiner == "some") and draw.chance(4):
        adjective = draw(ATTRIBUTES[kind], kind).replace("_", " ")
    if name in ("boy", "girl"):
        adjective = adjective.replace("old", "young")  # "une vieille fille" is a spinster
    return noun_phrase(determiner, name, adjective, plural, negated)


@cache
def nouns_of(kinds: str, feminine: bool, plural: bool) -> str:
    nouns = (name for name, noun in NOUNS.items() if noun.kind in kinds.split() and noun.feminine == feminine)
    return " ".join(name for name in nouns if not (plural and name in SINGULAR_ONLY))


def some_subject(draw: BalancedSampler, verb: str, tense: str, plain: bool = False) -> Phrase:
    who = draw("I I you you we we they he she name man woman men women", verb, tense)
    if who == "name":
        who = draw("Paul Thomas Marie Alice")
    if who in SUBJECTS:
        return SUBJECTS[who]
    plural = who in ("men", "women")
    name = draw(nouns_of(WHO.get(verb, PERSONS), who in ("woman", "women"), plural))
    one, many = DETERMINERS_OF[NOUNS[name].kind]
    return some_noun(draw, name, ("", many) if plural else (one, ""), definite=plain, plain=plain)


def some_place(draw: BalancedSampler, prepositions: str, *context: str) -> Phrase:
    preposition = draw(prepositions, *context)
    return after(preposition, some_noun(draw, PLACES[preposition], ("the the the this", "")))


def some_time(draw: BalancedSampler, tense: str) -> Phrase:
    english = draw(WHEN.get(tense, ("today", "tomorrow")), tense)
    return Phrase(english, TIMES[english], kind="time")
