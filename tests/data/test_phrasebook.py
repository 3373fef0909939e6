"""The built-in corpus: its size, its split, and above all its grammar."""

import hashlib
import re
from collections import Counter

import pytest

from minitransformer.data import phrasebook as pb
from minitransformer.data.phrasebook import grammar, patterns
from minitransformer.data.phrasebook.grammar import NEGATION, PRONOUNS, QUESTION, STATEMENT, SUBJECTS, Phrase
from minitransformer.data.phrasebook.lexicon import ETRE


def book():
    """It takes a second to draw, once."""
    return pb.phrasebook()


def pairs():
    return book().train + book().test


def forms(pairs, language):
    return Counter(form for pair in pairs for form in pb.word_forms(pair[language]))


# --- Size and split ---


def test_there_are_thousands_of_distinct_pairs_and_500_are_held_out():
    assert len(book().test) == 500
    assert 8_000 <= len({pb.bare(english) for english, _ in pairs()}) <= 12_000


@pytest.mark.parametrize("language", [0, 1])
def test_each_language_has_more_than_300_words(language):
    assert len({form.lower() for form in forms(pairs(), language)}) > 300


@pytest.mark.parametrize("language", [0, 1])
def test_no_sentence_occurs_twice_even_without_case_and_punctuation(language):
    bare = [re.sub(r"\W+", " ", pair[language].lower()).strip() for pair in pairs()]
    assert len(set(bare)) == len(bare)


@pytest.mark.parametrize("language", [0, 1])
def test_words_of_held_out_sentences_are_frequent_in_training(language):
    train = forms(book().train, language)
    test = forms(book().test, language)
    assert min(train[form] for form in test) >= 10


@pytest.mark.parametrize("language", [0, 1])
def test_no_word_is_too_rare_to_learn(language):
    assert min(forms(book().train, language).values()) >= 8


def test_the_document_sentences_are_in_training():
    assert set(pb.DOCUMENT_SENTENCES) <= set(book().train)


def test_held_out_sentences_are_of_all_kinds():
    held_out = [english for english, _ in book().test]
    kinds = r"\?$", " not |cannot", "^There ", "^(This|These) (is|are)", " (me|him|us|them)\\b", "going to"
    assert all(any(re.search(kind, english) for english in held_out) for kind in kinds)


def test_some_sentences_come_without_a_full_stop():
    statements = [english for english, _ in pairs() if not english.endswith("?")]
    share = sum(not english.endswith(".") for english in statements) / len(statements)
    assert 0.2 < share < 0.3


# --- Determinism ---


def test_another_seed_gives_another_corpus():
    assert pb.phrasebook(seed=1) != book()


def test_the_corpus_has_not_changed():
    text = "\n".join("\t".join(pair) for pair in [*book().train, ("", ""), *book().test])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "7c45666b0f2f4ba0"


def test_english_to_french_is_a_function_over_all_that_the_grammar_says():
    draw = patterns.BalancedSampler(2)
    french_of = {}
    for pattern in patterns.PATTERNS:
        for _ in range(2_000):
            english, french = pattern(draw)
            assert french_of.setdefault(english.lower(), french) == french


# --- Spelling, over the whole corpus ---


@pytest.mark.parametrize(
    "wrong",
    [
        r"\b(je|me|te|se|le|la|ne|de|que|ce) [aeiouyéêîôœh](?!ibou|éros)",  # elision: j'aime
        r"\b([jlmtsnd]|qu)'[^aeiouyéêîôœhAI]",
        r"'(hibou|héros)",  # an aspirated h elides nothing
        r"\b(cette|belle|nouvelle|vieille) (homme|ami|oiseau|arbre|hôtel|ordinateur|étudiant|enfant)\b",
        r"\b(ma|ta|sa) [aeiouyéêîôœh]",  # mon école
        r"\b(beau|nouveau|vieux|ce) (homme|ami|oiseau|arbre|hôtel|ordinateur|étudiant|enfant)\b",
        r"\b(bel|nouvel|vieil|cet) (?![aeiouyéêîôœh])",
        r"\b(à|de) les? ",  # au, aux, du, des
        r"\b(un|mon|ton|son|ce|le|du|au) (femme|fille|maison|clé|table|voiture|reine|soupe|vache)\b",
        r"\b(une|ma|ta|sa|cette|la) (homme|garçon|roi|chat|chien|livre|frère|jardin|lit|pain)\b",
        r"\b(des|mes|tes|ses|nos|leurs|ces|deux|trois) \w*[^sx\W]\b",
        r"\b(tu) (a|est|va|aime|peut|veut|doit|voit)\b",
        r"\bpas (un|une|du|de la|des)\b",  # ne ... pas de; but "ce n'est pas un chat"
        r"\bai (allé|arrivé|parti|resté|assis|caché)",
        r"\s{2}|^\s|\s$| \.|[^ ]\?",
        r"^[a-zéœ]",
    ],
)
def test_french_is_spelled_correctly(wrong):
    sentences = [french for _, french in pairs() if not french.startswith(("Ce n'est", "Ce ne sont"))]
    assert [french for french in sentences if re.search(wrong, french)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        r"\b[Aa] [aeiouAEIOU]",
        r"\b[Aa]n [^aeiou]",
        r"^(He|She|Paul|Marie|Alice|Thomas) (do|have|are|were|go|want|see|love)\b",
        r"^(I|You|We|They) (does|has|is|goes|wants|sees|loves)\b",
        r"\b(two|three|these) \w+ (is|was|has|does)\b",
        r"\b(mans|womans|childs|mouses|heros|tomatos)\b",
        r"\b(do|does|did) not \w+(s|ed)\b",
        r"hidding|writeing|siting|\bto to\b|can not|'",
        r"\s{2}|^\s|\s$| [.?]",
        r"^[a-z]",
    ],
)
def test_english_is_spelled_correctly(wrong):
    assert [english for english, _ in pairs() if re.search(wrong, english)] == []


def test_both_sides_end_alike():
    for english, french in pairs():
        assert (english[-1] == "?", english[-1] == ".") == (french.endswith(" ?"), french[-1] == ".")


def test_every_negation_has_both_its_halves():
    for english, french in pairs():
        negated = re.search(r"\bnot\b|cannot", english) is not None
        assert negated == (" pas" in french) == bool(re.search(r"\bn(e |')", french))


# --- Grammar, sentence by sentence ---

JE, YOU, SHE, WE, ALICE = (SUBJECTS[name] for name in ("I", "you", "she", "we", "Alice"))
noun, after = grammar.noun_phrase, grammar.after


def the(name, adjective="", plural=False):
    return noun("the", name, adjective, plural)


SENTENCES = [
    # the document's
    (grammar.clause(STATEMENT, "present", JE, "love", pronoun=PRONOUNS["you"]), "I love you", "Je t'aime"),
    (grammar.clause(STATEMENT, "present", JE, "love", noun("general", "AI")), "I love AI", "J'aime l'IA"),
    (grammar.clause(STATEMENT, "present", JE, "love", noun("general", "cat", plural=True)),
     "I love cats", "J'aime les chats"),
    (grammar.clause(STATEMENT, "past", the("cat"), "sit", after("on", the("mat"))),
     "The cat sat on the mat", "Le chat s'est assis sur le tapis"),
    (grammar.clause(STATEMENT, "past", the("dog"), "chase", the("cat")),
     "The dog chased the cat", "Le chien a poursuivi le chat"),
    # object pronouns, and the participle that agrees with them
    (grammar.clause(STATEMENT, "past", JE, "see", pronoun=PRONOUNS["her"]), "I saw her", "Je l'ai vue"),
    (grammar.clause(STATEMENT, "past", JE, "see", pronoun=PRONOUNS["him"]), "I saw him", "Je l'ai vu"),
    (grammar.clause(NEGATION, "past", SHE, "see", pronoun=PRONOUNS["them"]),
     "She did not see them", "Elle ne les a pas vus"),
    (grammar.clause(STATEMENT, "present", SHE, "see", pronoun=PRONOUNS["us"]),
     "She sees us", "Elle nous voit"),
    (grammar.clause(QUESTION, "present", YOU, "love", pronoun=PRONOUNS["me"]),
     "Do you love me?", "Est-ce que tu m'aimes ?"),
    (grammar.clause(STATEMENT, "want", WE, "wait for", pronoun=PRONOUNS["him"]),
     "We want to wait for him", "Nous voulons l'attendre"),
    # être in the past, and reflexive verbs
    (grammar.clause(STATEMENT, "past", the("girl", plural=True), "go", after("to", the("museum"))),
     "The girls went to the museum", "Les filles sont allées au musée"),
    (grammar.clause(NEGATION, "past", ALICE, "leave"), "Alice did not leave", "Alice n'est pas partie"),
    (grammar.clause(NEGATION, "past", WE, "hide", after("near", the("hotel"))),
     "We did not hide near the hotel", "Nous ne nous sommes pas cachés près de l'hôtel"),
    (grammar.clause(STATEMENT, "going", YOU, "hide"), "You are going to hide", "Tu vas te cacher"),
    # other tenses, modals, questions
    (grammar.clause(NEGATION, "can", JE, "sing"), "I cannot sing", "Je ne peux pas chanter"),
    (grammar.clause(QUESTION, "present", SHE, "see", the("cat")),
     "Does she see the cat?", "Est-ce qu'elle voit le chat ?"),
    (grammar.clause(STATEMENT, "progressive", SHE, "write", noun("a", "letter")),
     "She is writing a letter", "Elle écrit une lettre"),
    # articles: partitive, under negation, contracted
    (grammar.clause(STATEMENT, "present", WE, "drink", noun("some", "water")),
     "We drink some water", "Nous buvons de l'eau"),
    (grammar.clause(NEGATION, "present", JE, "want", noun("some", "bread", negated=True)),
     "I do not want any bread", "Je ne veux pas de pain"),
    (grammar.clause(NEGATION, "present", JE, "have", noun("a", "computer", negated=True)),
     "I do not have a computer", "Je n'ai pas d'ordinateur"),
    (grammar.clause(STATEMENT, "past", JE, "give", noun("a", "egg"), after("to", the("child", plural=True))),
     "I gave an egg to the children", "J'ai donné un œuf aux enfants"),
    # être and avoir
    (grammar.description(STATEMENT, False, the("cat"), "black"), "The cat is black", "Le chat est noir"),
    (grammar.description(STATEMENT, False, ALICE, "tired"), "Alice is tired", "Alice est fatiguée"),
    (grammar.description(QUESTION, True, the("woman", plural=True), "happy"),
     "Were the women happy?", "Est-ce que les femmes étaient heureuses ?"),
    (grammar.description(NEGATION, False, ALICE, "hungry"), "Alice is not hungry", "Alice n'a pas faim"),
    (grammar.presentation(NEGATION, Phrase("this", "ce"), ETRE, noun("my", "school")),
     "This is not my school", "Ce n'est pas mon école"),
    (grammar.presentation(STATEMENT, Phrase("this", "ce"), ETRE, noun("a", "apple")),
     "This is an apple", "C'est une pomme"),
    (grammar.presentation(QUESTION, Phrase("there", "il"), ("y a",) * 5, noun("a", "owl")),
     "Is there an owl?", "Est-ce qu'il y a un hibou ?"),
]  # fmt: skip


@pytest.mark.parametrize(("pair", "english", "french"), SENTENCES)
def test_sentences_come_out_right(pair, english, french):
    assert pair == (english, french)


@pytest.mark.parametrize(
    ("phrase", "english", "french"),
    [
        (noun("the", "man"), "the man", "l'homme"),
        (noun("the", "hero"), "the hero", "le héros"),
        (noun("this", "bird"), "this bird", "cet oiseau"),
        (noun("this", "woman", plural=True), "these women", "ces femmes"),
        (noun("a", "man", "old"), "an old man", "un vieil homme"),
        (noun("my", "friend", "new"), "my new friend", "mon nouvel ami"),
        (noun("two", "bird", "beautiful", plural=True), "two beautiful birds", "deux beaux oiseaux"),
        (noun("her", "house", "old"), "her old house", "sa vieille maison"),
        (noun("his", "school"), "his school", "son école"),
        (noun("his", "school", "new"), "his new school", "sa nouvelle école"),
        (noun("their", "dress", "white", plural=True), "their white dresses", "leurs robes blanches"),
        (noun("the", "horse", "small", plural=True), "the small horses", "les petits chevaux"),
        (noun("three", "owl", plural=True), "three owls", "trois hiboux"),
        (noun("our", "mouse", plural=True), "our mice", "nos souris"),
        (noun("this", "hat", "red"), "this red hat", "ce chapeau rouge"),
    ],
)
def test_noun_phrases_come_out_right(phrase, english, french):
    assert (grammar.join_english(phrase.english), grammar.join_french(phrase.french)) == (english, french)


def test_an_unknown_tense_is_refused():
    with pytest.raises(ValueError, match="expected present, past"):
        grammar.clause(STATEMENT, "future", JE, "sing")
