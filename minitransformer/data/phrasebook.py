"""A built-in English-French corpus, written by a small grammar: thousands of correct pairs to learn from.

Four layers: tables of words, functions that join words into phrases, functions that join phrases into
sentences, and one function per kind of sentence that chooses what to say. `phrasebook()` draws sentences of
every kind, and holds out 500 pairs that training never sees.

English to French is a function here, so that a model can get every sentence right. Where French has to know
more than English tells, one choice holds everywhere: "you" is `tu`; "I", "you", "we", "they" and "them" are
masculine; the past is the passé composé, and only "was" and "were" are the imperfect; "big" is `grand`; a
question begins with `est-ce que`. Words that hide their tense or number ("read", "sheep") are left out, and
so is "it". Nothing is contracted ("do not", "cannot").
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache

Pair = tuple[str, str]  # English, French

DOCUMENT_SENTENCES: tuple[Pair, ...] = (  # always in the training split
    ("I love you", "Je t'aime"),
    ("I love AI", "J'aime l'IA"),
    ("I love cats.", "J'aime les chats."),
    ("The cat sat on the mat", "Le chat s'est assis sur le tapis"),
    ("The dog chased the cat", "Le chien a poursuivi le chat"),
)

# --- Words --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noun:
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    feminine: bool
    kind: str


@dataclass(frozen=True)
class Adjective:
    masculine: str
    feminine: str
    before_vowel: str  # the masculine in "un bel oiseau"
    precedes: bool  # "un petit chat", but "un chat noir"


@dataclass(frozen=True)
class Verb:
    base: str
    past: str
    infinitive: str
    present: tuple[str, ...]  # je, tu, il, nous, ils
    participle: str
    auxiliary: str  # of the passé composé: avoir, être, or se (être and a reflexive: "il s'est assis")


def english_plural(noun: str) -> str:
    return noun + ("es" if noun.endswith(("s", "x", "ch", "o")) else "s")


def french_plural(word: str) -> str:
    """chat -> chats, souris -> souris, gâteau -> gâteaux, cheval -> chevaux"""
    if word.endswith(("s", "x")):
        return word
    return re.sub("al$", "au", word) + ("x" if word.endswith(("al", "eau")) else "s")


NOUN_TABLE = {  # English (/ irregular plural), gender, French (/ irregular plural)
    "people": "man/men m homme, woman/women f femme, boy m garçon, girl f fille, king m roi, queen f reine, "
    "hero m héros",
    "family": "mother f mère, father m père, brother m frère, sister f sœur, child/children m enfant",
    "friends": "friend m ami, teacher m professeur, doctor m médecin, student m étudiant",
    "animals": "cat m chat, dog m chien, bird m oiseau, mouse/mice f souris, owl m hibou/hiboux, "
    "rabbit m lapin",
    "cattle": "horse m cheval, cow f vache",
    "things": "book m livre, letter f lettre, key f clé, car f voiture, box f boîte, flower f fleur, "
    "bag m sac, phone m téléphone, computer m ordinateur",
    "clothes": "hat m chapeau, coat m manteau, dress f robe, shirt f chemise",
    "openings": "door f porte, window f fenêtre",
    "food": "apple f pomme, egg m œuf, cake m gâteau, tomato f tomate",
    "dishes": "bread m pain, cheese m fromage, soup f soupe, meat f viande, fish m poisson",
    "drinks": "water f eau, milk m lait, coffee m café, tea m thé",
    "places": "house f maison, garden m jardin, school f école, museum m musée, park m parc, "
    "church f église, hotel m hôtel, market m marché, station f gare, kitchen f cuisine, street f rue, "
    "tree m arbre",
    "furniture": "mat m tapis, table f table, chair f chaise, bed m lit",
    "subjects": "AI f IA, music f musique, history f histoire, French m français",
}
PREPOSED_TABLE = (  # masculine, feminine (if it is not the masculine with an e), masculine before a vowel
    "small petit, big grand, young jeune, good bon bonne, old vieux vieille vieil, "
    "new nouveau nouvelle nouvel, beautiful beau belle bel"
)
POSTPOSED_TABLE = (
    "black noir, white blanc blanche, red rouge, blue bleu, happy heureux heureuse, sad triste, "
    "tired fatigué, ill malade, hot chaud, cold froid"
)
# English base and past, infinitive; unless it is regular in -er: present, participle; auxiliary unless avoir
VERB_TABLE = """
love loved, aimer
hate hated, détester
see saw, voir, vois vois voit voyons voient, vu
know knew, connaître, connais connais connaît connaissons connaissent, connu
help helped, aider
find found, trouver
lose lost, perdre, perds perds perd perdons perdent, perdu
chase chased, poursuivre, poursuis poursuis poursuit poursuivons poursuivent, poursuivi
watch watched, regarder
look looked for, chercher
wait waited for, attendre, attends attends attend attendons attendent, attendu
eat ate, manger
drink drank, boire, bois bois boit buvons boivent, bu
buy bought, acheter, achète achètes achète achetons achètent, acheté
open opened, ouvrir, ouvre ouvres ouvre ouvrons ouvrent, ouvert
write wrote, écrire, écris écris écrit écrivons écrivent, écrit
wear wore, porter
study studied, étudier
give gave, donner
show showed, montrer
have had, avoir, ai as a avons ont, eu
want wanted, vouloir, veux veux veut voulons veulent, voulu
sleep slept, dormir, dors dors dort dormons dorment, dormi
work worked, travailler
sing sang, chanter
play played, jouer
arrive arrived, arriver, être
stay stayed, rester, être
leave left, partir, pars pars part partons partent, parti, être
go went, aller, vais vas va allons vont, allé, être
hide hid, cacher, se
sit sat, asseoir, assieds assieds assied asseyons asseyent, assis, se
"""


def read_nouns() -> dict[str, Noun]:
    nouns = {}
    for kind, table in NOUN_TABLE.items():
        for entry in table.split(", "):
            english, gender, french = entry.split()
            one, _, many = english.partition("/")
            un, _, des = french.partition("/")
            numbers = (one, many or english_plural(one)), (un, des or french_plural(un))
            nouns[one] = Noun(*numbers, feminine=gender == "f", kind=kind)
    return nouns


def read_adjectives() -> dict[str, Adjective]:
    adjectives = {}
    for table in (PREPOSED_TABLE, POSTPOSED_TABLE):
        for entry in table.split(", "):
            english, masculine, *others = entry.split()
            feminine = others[0] if others else masculine.removesuffix("e") + "e"
            before_vowel = others[1] if others[1:] else masculine
            precedes = table is PREPOSED_TABLE
            adjectives[english] = Adjective(masculine, feminine, before_vowel, precedes)
    return adjectives


def read_verbs() -> dict[str, Verb]:
    verbs = {}
    for line in VERB_TABLE.strip().splitlines():
        english, infinitive, *forms = line.split(", ")
        base, past, *particle = english.split()
        auxiliary = forms.pop() if forms and forms[-1] in ("être", "se") else "avoir"
        if not forms:  # regular
            stem = infinitive.removesuffix("er")
            soft = stem + "e" if stem.endswith("g") else stem  # nous mangeons
            forms = [f"{stem}e {stem}es {stem}e {soft}ons {stem}ent", f"{stem}é"]
        base, past = words(base, *particle), words(past, *particle)
        verbs[base] = Verb(base, past, infinitive, tuple(forms[0].split()), forms[1], auxiliary)
    return verbs


def words(*parts: str) -> str:
    return " ".join(filter(None, parts))


NOUNS, ADJECTIVES, VERBS = read_nouns(), read_adjectives(), read_verbs()

# One form for each person. French "can eat", "is going to eat": the modal verb takes the infinitive.
JE, TU, IL, NOUS, ILS = range(5)
BE = ("am", "are", "is", "are", "are")
WAS = ("was", "were", "was", "were", "were")
AVOIR, ALLER, VOULOIR = VERBS["have"].present, VERBS["go"].present, VERBS["want"].present
ETRE = ("suis", "es", "est", "sommes", "sont")
AVAIT = ("avais", "avais", "avait", "avions", "avaient")
ETAIT = ("étais", "étais", "était", "étions", "étaient")
PEUT = ("peux", "peux", "peut", "pouvons", "peuvent")
DOIT = ("dois", "dois", "doit", "devons", "doivent")
MODALS = {"can": PEUT, "must": DOIT, "want": VOULOIR, "going": ALLER}
REFLEXIVE = ("me", "te", "se", "nous", "se")

DETERMINERS = {  # masculine, feminine, plural
    "the": ("le", "la", "les"),
    "general": ("le", "la", "les"),  # "I love cats": J'aime les chats
    "a": ("un", "une", ""),
    "some": ("de le", "de la", "de les"),  # contracts to du, de la, des
    "this": ("ce", "cette", "ces"),
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
    "two": ("", "", "deux"),
    "three": ("", "", "trois"),
}
PREPOSITIONS = {
    "in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "near": "près de", "at": "à", "to": "à",
}  # fmt: skip
TIMES = {
    "every day": "tous les jours", "in the morning": "le matin", "now": "maintenant", "today": "aujourd'hui",
    "yesterday": "hier", "this morning": "ce matin", "tomorrow": "demain",
}  # fmt: skip
NEEDS = {"hungry": "faim", "thirsty": "soif", "afraid": "peur"}  # "I am hungry": J'ai faim

# --- Words into phrases -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phrase:
    english: str
    french: str
    person: int = IL
    feminine: bool = False


SUBJECTS = {
    "I": Phrase("I", "je", JE),
    "you": Phrase("you", "tu", TU),
    "he": Phrase("he", "il"),
    "she": Phrase("she", "elle", feminine=True),
    "we": Phrase("we", "nous", NOUS),
    "they": Phrase("they", "ils", ILS),
    "Paul": Phrase("Paul", "Paul"),
    "Thomas": Phrase("Thomas", "Thomas"),
    "Marie": Phrase("Marie", "Marie", feminine=True),
    "Alice": Phrase("Alice", "Alice", feminine=True),
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
    return CONTRACTION.sub(lambda match: CONTRACTED[match[0]], text)


def join_english(*parts: str) -> str:
    return re.sub(r"\ba (?=[aeiou])", "an ", words(*parts)).replace("can not", "cannot")


def agree(masculine: str, feminine: str, phrase: Phrase) -> str:
    """The form of an adjective or participle that describes the phrase: assis, assise, assis, assises."""
    form = feminine if phrase.feminine else masculine
    return french_plural(form) if phrase.person in (NOUS, ILS) else form


def noun_phrase(
    determiner: str, name: str, adjective: str = "", plural: bool = False, negated: bool = False
) -> Phrase:
    """the black cat, le chat noir. As the object of a negated verb, "a" and "some" become `de`."""
    noun, number = NOUNS[name], ILS if plural else IL
    english, french = noun.english[plural], noun.french[plural]
    if adjective:
        described = ADJECTIVES[adjective]
        form = agree(described.masculine, described.feminine, Phrase("", "", number, noun.feminine))
        if described.precedes and re.match(VOWEL, french) and not (plural or noun.feminine):
            form = described.before_vowel
        english = f"{adjective} {english}"
        french = f"{form} {french}" if described.precedes else f"{french} {form}"
    article = DETERMINERS[determiner][2 if plural else noun.feminine]
    if negated and determiner in ("a", "some"):
        article, determiner = "de", determiner.replace("some", "any")
    if plural:
        determiner = determiner.replace("this", "these")
    determiner = determiner.replace("general", "")
    return Phrase(words(determiner, english), words(article, french), number, noun.feminine)


def after(preposition: str, phrase: Phrase) -> Phrase:
    return Phrase(words(preposition, phrase.english), words(PREPOSITIONS[preposition], phrase.french))


# --- Phrases into sentences ---------------------------------------------------------------------------------

STATEMENT, NEGATION, QUESTION = "statement", "negation", "question"


def third_person(verb: str) -> str:
    """look for -> looks for, watch -> watches, study -> studies, have -> has"""
    verb, *particle = verb.split()
    if verb == "have":
        return "has"
    verb = re.sub(r"(?<=[^aeiou])y$", "ie", verb)
    return words(verb + ("es" if verb.endswith(("ch", "o")) else "s"), *particle)


def ing(verb: str) -> str:
    """look for -> looking for, chase -> chasing, sit -> sitting"""
    verb, *particle = verb.split()
    stem = re.sub(r"^([^aeiou]*[aeiou])([dgmnpt])$", r"\1\2\2", verb)
    return words(re.sub(r"(?<!e)e$", "", stem) + "ing", *particle)


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
    """What "ne ... pas" embraces, and what follows it: "l'ai", "vue". A pronoun stands before its verb, and
    a participle agrees with the subject (être), or with the object pronoun before it (avoir)."""
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
) -> Pair:
    """A pair with its capitals and question marks. For `english` and `french` see the two functions above."""
    auxiliary, main, finite = english
    embraced, tail = french
    if mode == QUESTION:
        source = [auxiliary, subject.english, main]
        target = ["est-ce que", subject.french, embraced, tail]
    elif mode == NEGATION:
        source = [subject.english, auxiliary, "not", main]
        target = [subject.french, "ne", embraced, "pas", tail]
    else:
        source = [subject.english, finite]
        target = [subject.french, embraced, tail]
    one = join_english(*source, *(phrase.english for phrase in rest))
    other = join_french(*target, *(phrase.french for phrase in rest))
    marks = ("?", " ?") if mode == QUESTION else ("", "")
    return one[0].upper() + one[1:] + marks[0], other[0].upper() + other[1:] + marks[1]


def clause(
    mode: str, tense: str, subject: Phrase, verb: str, *rest: Phrase, pronoun: Phrase | None = None
) -> Pair:
    """Subject, verb, object pronoun, and what follows them: nouns, places, times."""
    english = english_verb(VERBS[verb], tense, subject.person)
    french = french_verb(VERBS[verb], tense, subject, pronoun)
    if pronoun:
        rest = (Phrase(pronoun.english, ""), *rest)
    return sentence(mode, subject, english, french, *rest)


def description(mode: str, past: bool, subject: Phrase, adjective: str, *rest: Phrase) -> Pair:
    """She is tired, elle est fatiguée. She is hungry, elle a faim."""
    be = (WAS if past else BE)[subject.person]
    if adjective in NEEDS:
        french = (AVAIT if past else AVOIR)[subject.person], NEEDS[adjective]
    else:
        described = ADJECTIVES[adjective]
        form = agree(described.masculine, described.feminine, subject)
        french = (ETAIT if past else ETRE)[subject.person], form
    return sentence(mode, subject, (be, adjective, f"{be} {adjective}"), french, *rest)


def presentation(mode: str, subject: Phrase, verb: tuple[str, ...], thing: Phrase, *rest: Phrase) -> Pair:
    """There is a cat, il y a un chat. These are my friends, ce sont mes amis."""
    be = BE[thing.person]
    english = be, thing.english, f"{be} {thing.english}"
    return sentence(mode, subject, english, (verb[thing.person], thing.french), *rest)


# --- What to say: one function per kind of sentence ---------------------------------------------------------


class Deal:
    """Deals options (a tuple, or the words of a string) like cards, shuffled anew when the deck is used up,
    so that each comes up equally often. A context has its own deck: each verb, say, meets every subject."""

    def __init__(self, seed: int):
        self.random = random.Random(seed).random  # the method whose numbers all Python versions agree on
        self.decks: dict[Hashable, list[str]] = {}

    def __call__(self, options: str | tuple[str, ...], *context: str) -> str:
        deck = self.decks.setdefault((options, context), [])
        if not deck:
            cards = options.split() if isinstance(options, str) else options
            deck.extend(sorted(cards, key=lambda _: self.random()))
        return deck.pop()

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


def some_mode(deal: Deal, subject: Phrase, *context: str) -> str:
    if subject.person == JE:  # one seldom asks what oneself is doing
        return deal((STATEMENT, STATEMENT, STATEMENT, NEGATION, NEGATION, QUESTION), *context)
    return deal((STATEMENT, STATEMENT, NEGATION, QUESTION), *context)


def some_tense(deal: Deal, verb: str) -> str:
    tense = deal(TENSES_OF.get(verb, TENSES), verb)
    return deal(tuple(MODALS), verb) if tense == "modal" else tense


def some_noun(
    deal: Deal,
    options: str,
    determiners: tuple[str, str] | None = None,  # for one, for many
    negated: bool = False,
    definite: bool = False,
    plain: bool = False,
) -> Phrase:
    """A noun of a kind or by its name, with a determiner and, unless it is plain, at times an adjective."""
    option = deal(options)
    name = deal(KINDS.get(option, option))
    kind = NOUNS[name].kind
    one, many = determiners or DETERMINERS_OF[kind]
    plural = not one or (many != "" and name not in SINGULAR_ONLY and deal.chance(3))
    determiner = deal(many if plural else one, kind)
    if definite and determiner in ("a", "some", "two", "three"):
        determiner = "the"
    adjective = ""
    if ATTRIBUTES[kind] and not plain and not (plural and determiner == "some") and deal.chance(4):
        adjective = deal(ATTRIBUTES[kind], kind)
    if name in ("boy", "girl"):
        adjective = adjective.replace("old", "young")  # "une vieille fille" is a spinster
    return noun_phrase(determiner, name, adjective, plural, negated)


@cache
def nouns_of(kinds: str, feminine: bool, plural: bool) -> str:
    nouns = (name for name, noun in NOUNS.items() if noun.kind in kinds.split() and noun.feminine == feminine)
    return " ".join(name for name in nouns if not (plural and name in SINGULAR_ONLY))


def some_subject(deal: Deal, verb: str, tense: str, plain: bool = False) -> Phrase:
    who = deal("I I you you we we they he she name man woman men women", verb, tense)
    if who == "name":
        who = deal("Paul Thomas Marie Alice")
    if who in SUBJECTS:
        return SUBJECTS[who]
    plural = who in ("men", "women")
    name = deal(nouns_of(WHO.get(verb, PERSONS), who in ("woman", "women"), plural))
    one, many = DETERMINERS_OF[NOUNS[name].kind]
    return some_noun(deal, name, ("", many) if plural else (one, ""), definite=plain, plain=plain)


def some_place(deal: Deal, prepositions: str, *context: str) -> Phrase:
    preposition = deal(prepositions, *context)
    return after(preposition, some_noun(deal, PLACES[preposition], ("the the the this", "")))


def some_time(deal: Deal, tense: str) -> Phrase:
    english = deal(WHEN.get(tense, ("today", "tomorrow")), tense)
    return Phrase(english, TIMES[english])


def liking_in_general(deal: Deal) -> Pair:
    """I love cats, j'aime les chats."""
    verb = deal("love hate")
    subject = some_subject(deal, verb, "general")
    kind = deal("animals cattle food dishes drinks subjects flower book")
    singular = kind in ("dishes", "drinks", "subjects")
    topic = some_noun(deal, kind, ("general", "") if singular else ("", "general"))
    return clause(some_mode(deal, subject, verb), "present", subject, verb, topic)


def acting_on_something(deal: Deal) -> Pair:
    """The dog chased the cat, le chien a poursuivi le chat."""
    verb = deal(tuple(OBJECTS))
    tense = some_tense(deal, verb)
    subject = some_subject(deal, verb, tense)
    mode = some_mode(deal, subject, verb, tense)
    definite = verb in ("love", "hate", "know")
    rest = [some_noun(deal, OBJECTS[verb], negated=mode == NEGATION, definite=definite)]
    if verb not in TENSES_OF and deal.chance(6):
        rest.append(some_time(deal, tense))
    return clause(mode, tense, subject, verb, *rest)


def acting_on_someone(deal: Deal) -> Pair:
    """I love you, je t'aime. We saw her, nous l'avons vue."""
    verb = deal(("love", "hate", "see", "know", "help", "find", "chase", "watch", "look for", "wait for"))
    tense = some_tense(deal, verb)
    subject = some_subject(deal, verb, tense)
    pronouns = "me you him her her us them"
    if subject.person in (JE, NOUS):  # no "I see me"
        pronouns = "you him her her them"
    elif subject.person == TU:
        pronouns = "me him her her us them"
    pronoun = PRONOUNS[deal(pronouns, verb, tense)]
    rest = [some_time(deal, tense)] if verb not in TENSES_OF and deal.chance(6) else []
    return clause(some_mode(deal, subject, verb, tense), tense, subject, verb, *rest, pronoun=pronoun)


def taking_some(deal: Deal) -> Pair:
    """I want some bread, je veux du pain. I do not want any bread, je ne veux pas de pain."""
    verb = deal("eat drink buy want")
    tense = some_tense(deal, verb)
    subject = some_subject(deal, verb, tense)
    mode = some_mode(deal, subject, verb, tense)
    kind = deal({"eat": "dishes food", "drink": "drinks"}.get(verb, "dishes drinks food"), verb)
    some = some_noun(deal, kind, ("", "some") if kind == "food" else ("some", ""), mode == NEGATION)
    return clause(mode, tense, subject, verb, some)


def having(deal: Deal) -> Pair:
    """I have a black cat, j'ai un chat noir. I do not have a cat, je n'ai pas de chat."""
    subject = some_subject(deal, "have", "present")
    mode = some_mode(deal, subject, "have")
    options = "animals cattle things clothes friends house house garden garden brother sister child"
    thing = some_noun(deal, options, ("a", "" if mode == NEGATION else "two three"), mode == NEGATION)
    return clause(mode, "present", subject, "have", thing)


def giving(deal: Deal) -> Pair:
    """She gave a book to the boy, elle a donné un livre au garçon."""
    verb = deal("give show")
    tense = some_tense(deal, verb)
    subject = some_subject(deal, verb, tense)
    mode = some_mode(deal, subject, verb, tense)
    gift = some_noun(deal, "things clothes food", negated=mode == NEGATION)
    return clause(mode, tense, subject, verb, gift, after("to", some_noun(deal, PERSONS)))


def acting_somewhere(deal: Deal, verbs: str = "sleep work sing play") -> Pair:
    """The girl is singing in the garden, la fille chante dans le jardin."""
    verb = deal(verbs)
    tense = some_tense(deal, verb)
    subject = some_subject(deal, verb, tense)
    rest = []
    match deal(ENDINGS.get(verb, "place place time nothing"), verb):
        case "place":
            rest.append(some_place(deal, WHERE[verb], verb))
        case "time":
            rest.append(some_time(deal, tense))
    return clause(some_mode(deal, subject, verb, tense), tense, subject, verb, *rest)


def moving(deal: Deal) -> Pair:
    """The cat sat on the mat, le chat s'est assis sur le tapis."""
    return acting_somewhere(deal, "arrive stay leave go hide sit")


def describing(deal: Deal) -> Pair:
    """The soup is cold, la soupe est froide. The girls were happy, les filles étaient heureuses."""
    past = deal.chance(3)
    if deal.chance(2):
        kind, subject = "people", some_subject(deal, "be", str(past), plain=True)
    else:
        kind = deal("animals cattle things clothes openings food dishes drinks places furniture")
        subject = some_noun(deal, kind, definite=True, plain=True)
    adjective = deal(PREDICATES[kind], kind)
    rest = []
    if adjective in MOODS.split() and deal.chance(5):
        rest.append(some_time(deal, "past" if past else "progressive"))
    return description(some_mode(deal, subject, adjective), past, subject, adjective, *rest)


def needing(deal: Deal) -> Pair:
    """She is hungry, elle a faim."""
    past = deal.chance(2)
    subject = some_subject(deal, "need", str(past))
    return description(some_mode(deal, subject), past, subject, deal(tuple(NEEDS)))


def there_is(deal: Deal) -> Pair:
    """There is a cat on the mat, il y a un chat sur le tapis."""
    preposition = deal("in on under behind near")
    options = "animals people friends"
    if preposition in ("on", "under"):
        options = "animals food hat book letter key bag phone"
    elif preposition != "in":
        options += " cattle car flower"
    thing = some_noun(deal, options, ("a", "two three"))
    mode = deal((STATEMENT, STATEMENT, QUESTION))
    return presentation(mode, Phrase("there", "il"), ("y a",) * 5, thing, some_place(deal, preposition))


def this_is(deal: Deal) -> Pair:
    """This is a good book, c'est un bon livre. These are my friends, ce sont mes amis."""
    kind = deal("animals cattle things clothes family friends")
    thing = some_noun(deal, kind, (OWNERS if kind == "family" else f"a a a {OWNERS}", OWNERS))
    subject = Phrase("these" if thing.person == ILS else "this", "ce")
    return presentation(some_mode(deal, subject, kind), subject, ETRE, thing)


# --- The corpus ---------------------------------------------------------------------------------------------

PATTERNS: dict[Callable[[Deal], Pair], int] = {  # how often each kind of sentence is drawn
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
HELD_OUT = 500
RARE = 16  # occurrences; words below it get more sentences


@dataclass(frozen=True)
class Phrasebook:
    train: list[Pair]
    test: list[Pair]


def bare(text: str) -> str:
    """What is left without case and final punctuation: sentences that share it count as the same sentence."""
    return text.rstrip(" .?").lower()


def word_forms(text: str) -> list[str]:
    """J'aime l'IA. -> J' aime l' IA"""
    return re.findall(r"[\w-]+'?", text)


def forms_of(pair: Pair) -> list[tuple[int, str]]:
    """The words of both sides, each with its language, 0 or 1."""
    return [(language, form) for language, text in enumerate(pair) for form in word_forms(text)]


def draw_pairs(deal: Deal) -> list[Pair]:
    """DOCUMENT_SENTENCES and the draws of all patterns, without repetition. A second round of draws keeps
    only sentences with a rare word."""
    pairs = list(DOCUMENT_SENTENCES)
    seen = {bare(text) for pair in pairs for text in pair}
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    draws = [pattern for pattern, count in PATTERNS.items() for _ in range(count)]
    for number, pattern in enumerate(draws * 2):
        english, french = pattern(deal)
        keys = {bare(english), bare(french)}
        if keys & seen:
            continue
        forms = forms_of((english, french))
        if number >= len(draws) and all(counts[form] >= RARE for form in forms):
            continue
        stop = "." if not english.endswith("?") and not deal.chance(4) else ""
        pairs.append((english + stop, french + stop))
        seen |= keys
        counts.update(forms)
    return pairs


def phrasebook(seed: int = 0) -> Phrasebook:
    """The whole corpus, always the same for the same seed. No sentence of either language occurs twice, and
    the words of held-out pairs occur at least ten times in training."""
    deal = Deal(seed)
    pairs = draw_pairs(deal)
    counts = Counter(form for pair in pairs for form in forms_of(pair))
    train: list[Pair] = []
    test: list[Pair] = []
    for pair in sorted(pairs, key=lambda _: deal.random()):
        used = Counter(forms_of(pair))
        familiar = all(counts[form] - used[form] >= 10 for form in used)
        if len(test) < HELD_OUT and familiar and pair not in DOCUMENT_SENTENCES:
            test.append(pair)
            counts.subtract(used)
        else:
            train.append(pair)
    return Phrasebook(train, test)
