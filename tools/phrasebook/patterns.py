"""One function for each kind of sentence, which chooses its words."""

from collections.abc import Callable

from .choices import (
    ENDINGS,
    MOODS,
    OBJECTS,
    OWNERS,
    PERSONS,
    PREDICATES,
    TENSES_OF,
    WHERE,
    BalancedSampler,
    some_mode,
    some_noun,
    some_place,
    some_subject,
    some_tense,
    some_time,
)
from .grammar import (
    NEGATION,
    PRONOUNS,
    QUESTION,
    STATEMENT,
    Phrase,
    Sentence,
    after,
    clause,
    description,
    presentation,
)
from .lexicon import ETRE, ILS, JE, NEEDS, NOUS, TU
from .order import chasing_each_other, writing_a_headline
from .portraits import portraying
from .reasons import giving_a_reason
from .senses import (
    being_near_a_bank,
    describing_a_bank,
    describing_a_bat,
    light_things,
    seeing_a_bat,
    seeing_a_light,
)


def liking_in_general(draw: BalancedSampler) -> Sentence:
    """I love cats, j'aime les chats."""
    verb = draw("love like hate")
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
    definite = verb in ("love", "like", "hate", "know")
    rest = [some_noun(draw, OBJECTS[verb], negated=mode == NEGATION, definite=definite)]
    if verb not in TENSES_OF and draw.chance(6):
        rest.append(some_time(draw, tense))
    return clause(mode, tense, subject, verb, *rest)


def acting_on_someone(draw: BalancedSampler) -> Sentence:
    """I love you, je t'aime. We saw her, nous l'avons vue."""
    verb = draw(
        ("love", "like", "hate", "see", "know", "help", "find", "chase", "watch", "look for", "wait for")
    )
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
    return acting_somewhere(draw, "arrive stay leave go hide sit jump live")


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
    liking_in_general: 450,
    acting_on_something: 1800,
    acting_on_someone: 1100,
    taking_some: 500,
    having: 400,
    giving: 450,
    acting_somewhere: 600,
    moving: 1100,
    describing: 950,
    needing: 400,
    there_is: 400,
    this_is: 300,
    giving_a_reason: 900,
    being_near_a_bank: 320,
    describing_a_bank: 60,
    describing_a_bat: 100,
    seeing_a_bat: 200,
    light_things: 120,
    seeing_a_light: 160,
    chasing_each_other: 270,
    writing_a_headline: 112,
    portraying: 1000,
}
