"""The grammar of both languages: words to phrases, phrases to sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from minitransformer.data.phrasebook import NEGATION, QUESTION, STATEMENT, Pair, Reference, Sense, tokens_of

from .lexicon import (
    ADJECTIVES,
    AVAIT,
    AVOIR,
    BE,
    DETERMINERS,
    ETAIT,
    ETRE,
    IL,
    ILS,
    JE,
    MODALS,
    NEEDS,
    NOUNS,
    NOUS,
    PREPOSITIONS,
    REFLEXIVE,
    TU,
    VERBS,
    WAS,
    Noun,
    Verb,
    french_plural,
    words,
)


def places_of(pair: Pair, english: str, french: str) -> tuple[int, int]:
    """Where a word stands in a sentence and in its translation; it must occur once in each."""
    places = []
    for text, word in zip(pair, (english, french), strict=True):
        tokens = tokens_of(text)
        if tokens.count(word) != 1:
            raise ValueError(f"expected {word!r} once in {text!r}, found it {tokens.count(word)} times")
        places.append(tokens.index(word))
    return places[0], places[1]


# --- Words to phrases -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phrase:
    english: str
    french: str
    person: int = IL
    feminine: bool = False
    kind: str = ""  # its noun's kind, as in NOUN_TABLE; or "time"
    preposition: str = ""  # that it starts with


@dataclass(frozen=True)
class Parts:
    """The parts of a sentence, from which its columns are made."""

    mode: str  # STATEMENT, NEGATION or QUESTION
    subject: Phrase
    verb: tuple[str, str, str]  # as returned by `english_verb`: auxiliary, main, finite
    rest: tuple[Phrase, ...]  # objects, places, times
    is_clause: bool = False  # made by `clause`: the verb is not a form of "be"
    is_contracted: bool = False  # "didn't", not "did not"
    reference: Reference | None = None  # what the pronoun in a reason refers to
    sense: Sense | None = None  # the sense of a word that has two


class Sentence(tuple[str, str]):
    """A pair that knows its parts."""

    parts: Parts

    def __new__(cls, english: str, french: str, parts: Parts) -> Sentence:
        self = super().__new__(cls, (english, french))
        self.parts = parts
        return self


SUBJECTS = {
    "I": Phrase("I", "je", JE),
    "you": Phrase("you", "tu", TU),
    "he": Phrase("he", "il"),
    "she": Phrase("she", "elle", feminine=True),
    "we": Phrase("we", "nous", NOUS),
    "they": Phrase("they", "ils", ILS),
    "Paul": Phrase("Paul", "Paul", kind="people"),
    "Thomas": Phrase("Thomas", "Thomas", kind="people"),
    "Marie": Phrase("Marie", "Marie", feminine=True, kind="people"),
    "Alice": Phrase("Alice", "Alice", feminine=True, kind="people"),
}
PRONOUNS = {
    "me": Phrase("me", "me", JE),
    "you": Phrase("you", "te", TU),
    "him": Phrase("him", "le"),
    "her": Phrase("her", "la", feminine=True),
    "us": Phrase("us", "nous", NOUS),
    "them": Phrase("them", "les", ILS),
}

VOWEL = r"(?=[aeiouyéêîôœAI]|h(?!ibou|éros))"  # a mute h counts as one: "l'homme", but "le hibou"
BEFORE_VOWEL = {
    "je ": "j'", "me ": "m'", "te ": "t'", "se ": "s'", "le ": "l'", "la ": "l'", "ne ": "n'", "de ": "d'",
    "que ": "qu'", "ce ": "cet ", "ma ": "mon ", "ta ": "ton ", "sa ": "son ",
}  # fmt: skip
CONTRACTED = {"à le ": "au ", "à les ": "aux ", "de le ": "du ", "de les ": "des "}
ELISION = re.compile(rf"\b({'|'.join(BEFORE_VOWEL)}){VOWEL}")
CONTRACTION = re.compile(rf"\b({'|'.join(CONTRACTED)})")


def join_french(*parts: str) -> str:
    """Words with elision and contraction: je + aime -> j'aime, ma + école -> mon école, à + le -> au. Elision
    comes first: "de le pain" becomes "du pain", but "de la eau" becomes "de l'eau"."""
    text = re.sub(r"\bce est\b", "c'est", words(*parts))
    text = ELISION.sub(lambda match: BEFORE_VOWEL[match[0]], text)
    text = CONTRACTION.sub(lambda match: CONTRACTED[match[0]], text)
    return text.replace(" ,", ",")


def join_english(*parts: str) -> str:
    return re.sub(r"\ba (?=[aeiou])", "an ", words(*parts)).replace(" ,", ",")


def agree(masculine: str, feminine: str, phrase: Phrase) -> str:
    """The form of an adjective or participle that describes the phrase: assis, assise, assis, assises."""
    form = feminine if phrase.feminine else masculine
    return french_plural(form) if phrase.person in (NOUS, ILS) else form


def noun_phrase(
    determiner: str, name: str | Noun, adjective: str = "", plural: bool = False, negated: bool = False
) -> Phrase:
    """the black cat, le chat noir; the quick brown fox, le renard brun rapide. As the object of a negated
    verb, "a" and "some" become `de`."""
    noun = NOUNS[name] if isinstance(name, str) else name
    number = ILS if plural else IL
    english = noun.english[plural]
    french = noun.french[plural]
    for one in reversed(adjective.split()):  # the one next to the noun first
        described = ADJECTIVES[one]
        form = agree(described.masculine, described.feminine, Phrase("", "", number, noun.feminine))
        if described.precedes and re.match(VOWEL, french) and not (plural or noun.feminine):
            form = described.before_vowel
        english = f"{one} {english}"
        french = f"{form} {french}" if described.precedes else f"{french} {form}"
    article = DETERMINERS[determiner][2 if plural else noun.feminine]
    if negated and determiner in ("a", "some"):
        article = "de"
        determiner = determiner.replace("some", "any")
    if plural:
        determiner = determiner.replace("this", "these")
    if determiner in ("general", "headline"):
        determiner = ""
    return Phrase(words(determiner, english), words(article, french), number, noun.feminine, noun.kind)


def after(preposition: str, phrase: Phrase) -> Phrase:
    english = words(preposition, phrase.english)
    french = words(PREPOSITIONS[preposition], phrase.french)
    return Phrase(english, french, kind=phrase.kind, preposition=preposition)


# --- Phrases to sentences ---------------------------------------------------------------------------------


def third_person(verb: str) -> str:
    """look for -> looks for, watch -> watches, study -> studies, have -> has"""
    verb, *particle = verb.split()
    if verb == "have":
        return "has"
    verb = re.sub(r"(?<=[^aeiou])y$", "ie", verb)
    return words(verb + ("es" if verb.endswith(("ch", "o", "ss")) else "s"), *particle)


def ing(verb: str) -> str:
    """look for -> looking for, chase -> chasing, sit -> sitting"""
    verb, *particle = verb.split()
    stem = re.sub(r"^([^aeiou]*[aeiou])([dgmnpt])$", r"\1\2\2", verb)
    return words(re.sub(r"(?<!e)e$", "", stem) + "ing", *particle)


def negative(auxiliary: str, is_contracted: bool = False) -> str:
    """did not, or didn't; cannot, or can't; am not"""
    if is_contracted and auxiliary != "am":
        return f"{auxiliary}n't".replace("nn", "n")
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


def english_verb(verb: Verb, tense: str, person: int) -> tuple[str, str, str]:
    """Auxiliary and main verb of questions and negations (does, see), and the statement's verb (sees)."""
    do, conjugate = ("does", third_person) if person == IL else ("do", str)
    be = BE[person]
    match tense:
        case "present":
            return do, verb.base, conjugate(verb.base)
        case "past":
            return "did", verb.base, verb.past
        case "progressive":
            return be, ing(verb.base), f"{be} {ing(verb.base)}"
        case "going":
            return be, f"going to {verb.base}", f"{be} going to {verb.base}"
        case "want":
            return do, f"want to {verb.base}", f"{conjugate('want')} to {verb.base}"
        case "can" | "must":
            return tense, verb.base, f"{tense} {verb.base}"
    raise ValueError(f"tense: expected present, past, progressive, going, want, can or must, got {tense!r}")


def french_verb(verb: Verb, tense: str, subject: Phrase, pronoun: Phrase | None) -> tuple[str, str]:
    """The part between "ne" and "pas", and the part after: "l'ai", "vue". A pronoun precedes its verb, and a
    participle agrees with the subject (être), or with the object pronoun before it (avoir)."""
    person = subject.person
    clitic = REFLEXIVE[person] if verb.auxiliary == "se" else pronoun.french if pronoun else ""
    if tense in MODALS:
        return MODALS[tense][person], words(clitic, verb.infinitive)
    if tense != "past":
        return words(clitic, verb.present[person]), ""
    auxiliary, agreeing = (AVOIR, pronoun) if verb.auxiliary == "avoir" else (ETRE, subject)
    participle = agree(verb.participle, verb.participle + "e", agreeing) if agreeing else verb.participle
    return words(clitic, auxiliary[person]), participle


def sentence(
    mode: str, subject: Phrase, english: tuple[str, str, str], french: tuple[str, str], *rest: Phrase
) -> Sentence:
    """A pair with capitals and question marks. For `english` and `french`, see the two functions above."""
    auxiliary, main, finite = english
    head, tail = french
    if mode == QUESTION:
        source = [auxiliary, subject.english, main]
        target = ["est-ce que", subject.french, head, tail]
    elif mode == NEGATION:
        source = [subject.english, negative(auxiliary), main]
        target = [subject.french, "ne", head, "pas", tail]
    else:
        source = [subject.english, finite]
        target = [subject.french, head, tail]
    one = join_english(*source, *(phrase.english for phrase in rest))
    other = join_french(*target, *(phrase.french for phrase in rest))
    marks = ("?", " ?") if mode == QUESTION else ("", "")
    parts = Parts(mode, subject, english, rest)
    return Sentence(one[0].upper() + one[1:] + marks[0], other[0].upper() + other[1:] + marks[1], parts)


def clause(
    mode: str, tense: str, subject: Phrase, verb: str, *rest: Phrase, pronoun: Phrase | None = None
) -> Sentence:
    """Subject, verb, object pronoun, and what follows them: nouns, places, times."""
    english = english_verb(VERBS[verb], tense, subject.person)
    french = french_verb(VERBS[verb], tense, subject, pronoun)
    if pronoun:
        rest = (Phrase(pronoun.english, ""), *rest)
    made = sentence(mode, subject, english, french, *rest)
    return Sentence(*made, replace(made.parts, is_clause=True))


def description(
    mode: str, past: bool, subject: Phrase, adjective: str, *rest: Phrase, too: bool = False
) -> Sentence:
    """She is too tired, elle est trop fatiguée. She is hungry, elle a faim."""
    be = (WAS if past else BE)[subject.person]
    if adjective in NEEDS:
        french = (AVAIT if past else AVOIR)[subject.person], words("trop" if too else "", NEEDS[adjective])
    else:
        described = ADJECTIVES[adjective]
        form = agree(described.masculine, described.feminine, subject)
        french = (ETAIT if past else ETRE)[subject.person], words("trop" if too else "", form)
    adjective = words("too" if too else "", adjective)
    return sentence(mode, subject, (be, adjective, f"{be} {adjective}"), french, *rest)


def reason(past: bool, subject: Phrase, adjective: str, too: bool = False, link: str = "because") -> Phrase:
    """because it was too tired, parce qu'il était trop fatigué; the link can also be a comma."""
    english, french = description(STATEMENT, past, subject, adjective, too=too)
    links = {"because": "parce que", ",": ","}
    return Phrase(
        f"{link} {english[0].lower()}{english[1:]}",
        f"{links[link]} {french[0].lower()}{french[1:]}",
        kind="reason",
        preposition=link,
    )


def contracted(made: Sentence) -> Sentence:
    """She did not see them -> She didn't see them"""
    auxiliary = made.parts.verb[0]
    english = made[0].replace(f" {negative(auxiliary)} ", f" {negative(auxiliary, True)} ", 1)
    sense = made.parts.sense
    if sense and auxiliary == "can":  # "cannot" is one token, "can't" two
        english_place, french_place = sense.place
        clue = sense.clue and (sense.clue[0] + 1, sense.clue[1])
        sense = sense._replace(place=(english_place + 1, french_place), clue=clue)
    return Sentence(english, made[1], replace(made.parts, sense=sense, is_contracted=english != made[0]))


def presentation(mode: str, subject: Phrase, verb: tuple[str, ...], thing: Phrase, *rest: Phrase) -> Sentence:
    """There is a cat, il y a un chat. These are my friends, ce sont mes amis."""
    be = BE[thing.person]
    english = be, thing.english, f"{be} {thing.english}"
    return sentence(mode, subject, english, (verb[thing.person], thing.french), *rest)
