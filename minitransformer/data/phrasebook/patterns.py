"""One function for each kind of sentence, which chooses its words."""

import random
from collections.abc import Callable, Hashable
from functools import cache

from .grammar import (
    NEGATION,
    PRONOUNS,
    QUESTION,
    STATEMENT,
    SUBJECTS,
    Phrase,
    Sentence,
    after,
    clause,
    description,
    noun_phrase,
    presentation,
)
from .lexicon import (
    ETRE,
    ILS,
    JE,
    MODALS,
    NEEDS,
    NOUN_TABLE,
    NOUNS,
    NOUS,
    TIMES,
    TU,
)


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
SINGULAR_ONLY = ("mother", "father")
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
COLOURS = "black white red blue"
MOODS = "happy sad tired ill"
ATTRIBUTES = {  # adjectives that suit each kind of noun
    "people": "young old small beautiful",
    "family": "",
    "friends": "young old new good",
    "animals": "young old small beautiful black white",
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
}
PREDICATES = {  # those that can follow "is"
    kind: f"{MOODS} young old small beautiful" if kind in BEINGS.split() else attributes.replace("new ", "")
    for kind, attributes in ATTRIBUTES.items()
}

TENSES = "present present progressive past past modal"
TENSES_OF = {  # where not all of them sound right
    **dict.fromkeys(("know", "have", "want"), "present"),
    **dict.fromkeys(("love", "hate"), "present past"),
    **dict.fromkeys(("see", "find"), "present past modal"),
    **dict.fromkeys(("arrive", "lose"), "present progressive past past"),
    "sit": "past past modal",
}
WHO = {  # who does it, where it is not only persons
    **dict.fromkeys(("see", "chase", "watch", "eat", "need"), BEINGS),
    **dict.fromkeys(("sleep", "hide", "sit"), f"{PERSONS} animals"),
}
OBJECTS = {
    "love": "people family friends animals cattle things clothes places",
    "hate": "people animals things clothes places dishes",
    "see": "people family friends animals cattle things places",
    "know": "people family friends museum park church hotel",
    "help": "people family friends",
    "find": "animals cattle things clothes",
    "lose": "things clothes",
    "chase": "people animals cattle",
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
}  # fmt: skip
ENDINGS = {"go": "place", "sit": "place", "stay": "place", "leave": "time nothing"}
PLACES = {
    "in": "house garden school museum park church hotel kitchen street",
    "on": "mat table chair bed",
    "under": "table bed tree",
    "behind": "house church tree door",
    "near": "house school park church hotel market station tree window",
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
        adjective = draw(ATTRIBUTES[kind], kind)
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


def liking_in_general(draw: BalancedSampler) -> Sentence:
    """I love cats, j'aime les chats."""
    verb = draw("love hate")
    subject = some_subject(draw, verb, "general")
    kind = draw("animals cattle food dishes drinks subjects flower book")
    singular = kind in ("dishes", "drinks", "subjects")
    topic = some_noun(draw, kind, ("general", "") if singular else ("", "general"))
    return clause(some_mode(draw, subject, verb), "present", subject, verb, topic)


def acting_on_something(draw: BalancedSampler) -> Sentence:
    """The dog chased the cat, le chien a poursuivi le chat."""
    verb = draw(tuple(OBJECTS))
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    mode = some_mode(draw, subject, verb, tense)
    definite = verb in ("love", "hate", "know")
    rest = [some_noun(draw, OBJECTS[verb], negated=mode == NEGATION, definite=definite)]
    if verb not in TENSES_OF and draw.chance(6):
        rest.append(some_time(draw, tense))
    return clause(mode, tense, subject, verb, *rest)


def acting_on_someone(draw: BalancedSampler) -> Sentence:
    """I love you, je t'aime. We saw her, nous l'avons vue."""
    verb = draw(("love", "hate", "see", "know", "help", "find", "chase", "watch", "look for", "wait for"))
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    pronouns = "me you him her her us them"
    if subject.person in (JE, NOUS):  # no "I see me"
        pronouns = "you him her her them"
    elif subject.person == TU:
        pronouns = "me him her her us them"
    pronoun = PRONOUNS[draw(pronouns, verb, tense)]
    rest = [some_time(draw, tense)] if verb not in TENSES_OF and draw.chance(6) else []
    return clause(some_mode(draw, subject, verb, tense), tense, subject, verb, *rest, pronoun=pronoun)


def taking_some(draw: BalancedSampler) -> Sentence:
    """I want some bread, je veux du pain. I do not want any bread, je ne veux pas de pain."""
    verb = draw("eat drink buy want")
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    mode = some_mode(draw, subject, verb, tense)
    kind = draw({"eat": "dishes food", "drink": "drinks"}.get(verb, "dishes drinks food"), verb)
    some = some_noun(draw, kind, ("", "some") if kind == "food" else ("some", ""), mode == NEGATION)
    return clause(mode, tense, subject, verb, some)


def having(draw: BalancedSampler) -> Sentence:
    """I have a black cat, j'ai un chat noir. I do not have a cat, je n'ai pas de chat."""
    subject = some_subject(draw, "have", "present")
    mode = some_mode(draw, subject, "have")
    options = "animals cattle things clothes friends house house garden garden brother sister child"
    thing = some_noun(draw, options, ("a", "" if mode == NEGATION else "two three"), mode == NEGATION)
    return clause(mode, "present", subject, "have", thing)


def giving(draw: BalancedSampler) -> Sentence:
    """She gave a book to the boy, elle a donné un livre au garçon."""
    verb = draw("give show")
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    mode = some_mode(draw, subject, verb, tense)
    gift = some_noun(draw, "things clothes food", negated=mode == NEGATION)
    return clause(mode, tense, subject, verb, gift, after("to", some_noun(draw, PERSONS)))


def acting_somewhere(draw: BalancedSampler, verbs: str = "sleep work sing play") -> Sentence:
    """The girl is singing in the garden, la fille chante dans le jardin."""
    verb = draw(verbs)
    tense = some_tense(draw, verb)
    subject = some_subject(draw, verb, tense)
    rest = []
    match draw(ENDINGS.get(verb, "place place time nothing"), verb):
        case "place":
            rest.append(some_place(draw, WHERE[verb], verb))
        case "time":
            rest.append(some_time(draw, tense))
    return clause(some_mode(draw, subject, verb, tense), tense, subject, verb, *rest)


def moving(draw: BalancedSampler) -> Sentence:
    """The cat sat on the mat, le chat s'est assis sur le tapis."""
    return acting_somewhere(draw, "arrive stay leave go hide sit")


def describing(draw: BalancedSampler) -> Sentence:
    """The soup is cold, la soupe est froide. The girls were happy, les filles étaient heureuses."""
    past = draw.chance(3)
    if draw.chance(2):
        kind = "people"
        subject = some_subject(draw, "be", str(past), plain=True)
    else:
        kind = draw("animals cattle things clothes openings food dishes drinks places furniture")
        subject = some_noun(draw, kind, definite=True, plain=True)
    adjective = draw(PREDICATES[kind], kind)
    rest = []
    if adjective in MOODS.split() and draw.chance(5):
        rest.append(some_time(draw, "past" if past else "progressive"))
    return description(some_mode(draw, subject, adjective), past, subject, adjective, *rest)


def needing(draw: BalancedSampler) -> Sentence:
    """She is hungry, elle a faim."""
    past = draw.chance(2)
    subject = some_subject(draw, "need", str(past))
    return description(some_mode(draw, subject), past, subject, draw(tuple(NEEDS)))


def there_is(draw: BalancedSampler) -> Sentence:
    """There is a cat on the mat, il y a un chat sur le tapis."""
    preposition = draw("in on under behind near")
    options = "animals people friends"
    if preposition in ("on", "under"):
        options = "animals food hat book letter key bag phone"
    elif preposition != "in":
        options += " cattle car flower"
    thing = some_noun(draw, options, ("a", "two three"))
    mode = draw((STATEMENT, STATEMENT, QUESTION))
    return presentation(mode, Phrase("there", "il"), ("y a",) * 5, thing, some_place(draw, preposition))


def this_is(draw: BalancedSampler) -> Sentence:
    """This is a good book, c'est un bon livre. These are my friends, ce sont mes amis."""
    kind = draw("animals cattle things clothes family friends")
    thing = some_noun(draw, kind, (OWNERS if kind == "family" else f"a a a {OWNERS}", OWNERS))
    subject = Phrase("these" if thing.person == ILS else "this", "ce")
    return presentation(some_mode(draw, subject, kind), subject, ETRE, thing)


PATTERNS: dict[Callable[[BalancedSampler], Sentence], int] = {  # how often each kind of sentence is drawn
    liking_in_general: 600,
    acting_on_something: 2900,
    acting_on_someone: 1600,
    taking_some: 700,
    having: 500,
    giving: 600,
    acting_somewhere: 800,
    moving: 1600,
    describing: 1200,
    needing: 500,
    there_is: 500,
    this_is: 400,
}
