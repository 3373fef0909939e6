"""Tables of nouns, adjectives, verbs and function words."""

import re
from dataclasses import dataclass


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
    auxiliary: str  # in the passé composé: avoir, être, or se (être and a reflexive: "il s'est assis")


def english_plural(noun: str) -> str:
    return noun + ("es" if noun.endswith(("s", "x", "ch", "o")) else "s")


def french_plural(word: str) -> str:
    """chat -> chats, souris -> souris, gâteau -> gâteaux, cheval -> chevaux"""
    if word.endswith(("s", "x")):
        return word
    return re.sub("al$", "au", word) + ("x" if word.endswith(("al", "eau")) else "s")


NOUN_TABLE = {  # English (/ irregular plural), gender, French (/ irregular plural)
    "people": "man/men m homme, woman/women f femme, boy m garçon, girl f fille, king m roi, queen f reine, "
    "hero m héros, prince m prince, princess f princesse",
    "family": "mother f mère, father m père, brother m frère, sister f sœur, child/children m enfant, "
    "uncle m oncle, aunt f tante",
    "friends": "friend m ami, teacher m professeur, doctor m médecin, student m étudiant",
    "animals": "cat m chat, dog m chien, bird m oiseau, mouse/mice f souris, owl m hibou/hiboux, "
    "rabbit m lapin, goat f chèvre, fox m renard, animal m animal",
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
    "tree m arbre, river f rivière, bridge m pont, palace m palais",
    "furniture": "mat m tapis, table f table, chair f chaise, bed m lit",
    "subjects": "AI f IA, music f musique, history f histoire, French m français",
    # words of a few kinds of sentences
    "others": "money m argent, boat m bateau, ball f balle, crown f couronne, tie f cravate, toy m jouet",
}
PREPOSED_TABLE = (  # masculine, feminine (if it is not the masculine with an e), masculine before a vowel
    "small petit, big grand, young jeune, good bon bonne, old vieux vieille vieil, "
    "new nouveau nouvelle nouvel, beautiful beau belle bel"
)
POSTPOSED_TABLE = (
    "black noir, white blanc blanche, red rouge, blue bleu, happy heureux heureuse, sad triste, "
    "tired fatigué, ill malade, hot chaud, cold froid, brown brun, quick rapide, lazy paresseux paresseuse, "
    "wide large, narrow étroit, deep profond, heavy lourd, light léger légère, hard dur, "
    "comfortable confortable, delicious délicieux délicieuse"
)
# English base and past, infinitive; unless it is regular in -er: present, participle; auxiliary unless avoir
VERB_TABLE = """
love loved, aimer
like liked, apprécier
hate hated, détester
see saw, voir, vois vois voit voyons voient, vu
know knew, connaître, connais connais connaît connaissons connaissent, connu
help helped, aider
find found, trouver
lose lost, perdre, perds perds perd perdons perdent, perdu
bite bit, mordre, mords mords mord mordons mordent, mordu
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
carry carried, porter
cross crossed, traverser
study studied, étudier
give gave, donner
show showed, montrer
have had, avoir, ai as a avons ont, eu
want wanted, vouloir, veux veux veut voulons veulent, voulu
live lived, habiter
jump jumped, sauter
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
AVOIR = VERBS["have"].present
ALLER = VERBS["go"].present
VOULOIR = VERBS["want"].present
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
    "headline": ("un", "une", ""),  # "Dog bites man": Un chien mord un homme
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
    "over": "par-dessus", "of": "de", "with": "avec",
}  # fmt: skip
TIMES = {
    "every day": "tous les jours", "in the morning": "le matin", "now": "maintenant", "today": "aujourd'hui",
    "yesterday": "hier", "this morning": "ce matin", "tomorrow": "demain",
}  # fmt: skip
NEEDS = {"hungry": "faim", "thirsty": "soif", "afraid": "peur"}  # "I am hungry": J'ai faim
