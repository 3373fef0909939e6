"""The built-in corpus: its size, its split, and above all the grammar that drew it."""

import gzip
import re
from collections import Counter
from functools import cache

import pytest

from minitransformer.data.phrasebook import (
    DOCUMENT_SENTENCES,
    NEGATION,
    QUESTION,
    STATEMENT,
    tokens_of,
    word_forms,
)
from minitransformer.data.phrasebook import phrasebook as book
from minitransformer.text.tokenizer import Tokenizer
from tools import phrasebook as tool
from tools.phrasebook import bare, documents, grammar, patterns, reasons, senses
from tools.phrasebook.grammar import PRONOUNS, SUBJECTS, Phrase
from tools.phrasebook.lexicon import ETRE
from tools.phrasebook.order import minimal_pairs


@cache
def tokenizer():
    return Tokenizer.train_word([side for pair in book().train for side in pair])


def pairs():
    return book().train + book().test


def sentences():
    return [pair for pair in pairs() if pair.mode]


def forms(pairs, language):
    return Counter(form for pair in pairs for form in word_forms(pair[language]))


# --- Size and split ---


def test_pairs_are_distinct_and_500_are_held_out():
    assert len(book().test) == 500
    assert 8_000 <= len({bare(english) for english, _ in pairs()}) <= 12_000


@pytest.mark.parametrize("language", [0, 1])
def test_each_language_has_more_than_300_words(language):
    assert len({form.lower() for form in forms(pairs(), language)}) > 300


@pytest.mark.parametrize("language", [0, 1])
def test_no_sentence_occurs_twice(language):
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
    assert set(DOCUMENT_SENTENCES) <= set(book().train)


def test_the_documents_other_sentences_are_in_the_test_split():
    held_out = documents.held_out_sentences()
    assert held_out[0][0] == "The animal didn't cross the street because it was too tired."
    assert [french for _, french in held_out] == [
        "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
        "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
        "Le chat s'est assis sur le tapis parce qu'il était fatigué",
        "Le chat a mangé le poisson, il était délicieux",
        "Un chien mord un homme.",
        "Un homme mord un chien.",
        "Je suis allé à la banque.",
        "Le renard brun rapide a sauté par-dessus le chien paresseux.",
    ]
    assert set(held_out) <= set(book().test)


@pytest.mark.parametrize(
    "text",
    [
        "I love you",
        "you love I",
        "You love I",
        "love you",
        "AI love I",
        "I love AI",
        "I love cats.",
        "love like king queen man woman apple",
        "The cat sat on the mat,",
        "The cat sat on the mat because it was tired",
        "The dog chased the cat",
        "The animal didn't cross the street because it was too tired.",
        "The animal did not cross the street because it was too wide.",
        "He isn't, they aren't, she wasn't, we weren't, I don't, she doesn't, you can't, we mustn't",
        "The cat ate the fish, it was delicious,",
        "I went to the bank.",
        "bank river money",
        "Dog bites man.",
        "Man bites dog.",
        "The quick brown fox jumped over the lazy dog.",
        "Je t' aime",
        "J'aime l'IA",
        "J'aime les chats.",
    ],
)
def test_the_vocabulary_has_the_documents_words(text):
    assert tokenizer().unknown_words(text) == []


def test_held_out_sentences_are_of_all_kinds():
    held_out = [english for english, _ in book().test]
    kinds = (
        r"\?$",
        " not |cannot",
        "n't ",
        "^There ",
        "^(This|These) (is|are)",
        " (me|him|us|them)\\b",
        "going to",
    )
    assert all(any(re.search(kind, english) for english in held_out) for kind in kinds)


def test_some_sentences_come_without_a_full_stop():
    statements = [english for english, _ in pairs() if not english.endswith("?")]
    share = sum(not english.endswith(".") for english in statements) / len(statements)
    assert 0.2 < share < 0.3


# --- What "it" refers to, words of two senses, the order of words ---


def test_the_reference_of_a_pronoun_is_where_it_says():
    found = [pair for pair in sentences() if pair.reference]
    assert len(found) > 700
    for pair in found:
        reference = pair.reference
        english, french = map(tokens_of, pair)
        assert english[reference.pronoun[0]] in ("it", "he", "she")
        assert french[reference.pronoun[1]] in ("il", "elle")
        nouns = [grammar.NOUNS[english[place[0]]] for place in (reference.noun, reference.other)]
        assert [noun.french[0] for noun in nouns] == [
            french[place[1]] for place in (reference.noun, reference.other)
        ]
        assert french[reference.pronoun[1]] == ("elle" if nouns[0].feminine else "il")
        assert english[reference.pronoun[0]] == "it" or nouns[0].kind in ("people", "family")


def test_it_is_only_in_reasons_and_always_has_a_reference():
    for pair in sentences():
        if re.search(r"\bit\b", pair[0], re.IGNORECASE):
            assert pair.reference
            assert re.search(r"(because|,) it (is|was) ", pair[0])


def test_it_refers_to_either_noun_equally_often():
    its = [pair.reference for pair in sentences() if pair.reference and pair.tags.startswith("B-animal")]
    share = sum(reference.noun < reference.other for reference in its) / len(its)
    assert 0.4 < share < 0.6


def test_only_the_adjective_says_what_it_refers_to():
    for scene in reasons.SCENES:
        for mode in (STATEMENT, NEGATION):
            actor, thing = (set(scene.reasons[about, mode].split()) for about in ("actor", "thing"))
            assert actor
            assert thing
            assert not actor & thing


def test_places_are_those_of_the_word_tokenizer():
    for pair in book().test:
        for text in pair:
            assert [token.strip() for token in tokenizer().tokens(text)] == tokens_of(text)


def test_a_word_of_two_senses_has_the_french_word_of_its_sense():
    found = [pair for pair in sentences() if pair.sense]
    meanings = Counter((pair.sense.word, pair.sense.meaning) for pair in found)
    assert meanings.keys() == {*senses.SENSES, ("light", "weight")}
    assert min(meanings.values()) > 80
    for pair in found:
        sense = pair.sense
        english, french = map(tokens_of, pair)
        assert english[sense.place[0]] == sense.word
        if (sense.word, sense.meaning) in senses.SENSES:
            expected = senses.SENSES[sense.word, sense.meaning].french
        else:
            expected = "léger", "légers", "légère", "légères"
        assert french[sense.place[1]] in expected
        if sense.clue:
            assert grammar.NOUNS[english[sense.clue[0]]].french[0] == french[sense.clue[1]]


def test_every_bank_bat_and_light_has_its_sense():
    for english, _ in (pair for pair in sentences() if not pair.sense):
        if not re.search(r"because it (is|was) light|, it was light", english):
            assert not re.search(r"\b(bank|bat|light)s?\b", english)


def test_minimal_pairs_have_the_same_words_in_another_order():
    for split, least in ((book().train, 100), (book().test, 3)):
        found = minimal_pairs(split)
        assert len(found) >= least
        for one, other in found:
            words = [sorted(bare(pair[0]).split()) for pair in (one, other)]
            assert words[0] == words[1]
            assert bare(one[0]) != bare(other[0])
            assert one[1] != other[1]
    names = {frozenset(map(bare, (one[0], other[0]))) for one, other in minimal_pairs(pairs())}
    assert {"the dog chased the cat", "the cat chased the dog"} in names
    assert {"dog bites man", "man bites dog"} in names


def test_the_splits_do_not_divide_a_minimal_pair():
    assert len(minimal_pairs(pairs())) == len(minimal_pairs(book().train)) + len(minimal_pairs(book().test))


# --- Determinism ---


@pytest.mark.slow
@pytest.mark.parametrize("path", tool.FILES, ids=lambda path: path.name)
def test_the_files_of_the_package_are_what_is_drawn(path):
    written = gzip.decompress(path.read_bytes()).decode()
    assert written == tool.to_lines(tool.FILES[path]()), "run python -m tools.phrasebook"


@pytest.mark.slow
def test_another_seed_gives_another_corpus():
    train, test = tool.draw_phrasebook(seed=1)
    assert len(test) == 500
    assert train != book().train


@pytest.mark.slow
def test_each_english_sentence_has_one_translation():
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
        r"\bparce que [aeiouéêh]|\bpar dessus\b|chauve souris|chauves-souris (est|était)\b",
        r"\b(cette|une|la|ma|ta|sa) (animal|oncle|renard|pont|palais|prince|bateau|jouet)\b",
        r"\b(ce|un|le|mon|ton|du|au) (chèvre|tante|rivière|princesse|rive|banque|lumière|batte|couronne)\b",
        r"\bil (est|était|n'est pas) (trop )?(fatiguée|étroite|froide|dure|lourde|légère|heureuse)\b",
        r"\belle (est|était|n'est pas) (trop )?(fatigué|étroit|froid|dur|lourd|léger|délicieux)\b",
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
        r"\b(do|does|did)( not|n't) (?!cross\b)\w+(s|ed)\b",
        r"crosss|crosses the \w+ed\b|carrys|\ba (animal|uncle|aunt|owl|apple|egg)\b",
        r"hidding|writeing|siting|\bto to\b|can not|[^n]'|'[^t]|'t\w|\bamn't|cann't",
        r"\s{2}|^\s|\s$| [.?]",
        r"^[a-z]",
    ],
)
def test_english_is_spelled_correctly(wrong):
    assert [english for english, _ in pairs() if re.search(wrong, english)] == []


def test_an_stands_before_vowels_everywhere():
    for pair in sentences():
        texts = pair.subject, pair.negation, pair.question, pair.short, *sum(pair.asked or (), ())
        assert not [text for text in texts if re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", text)]


def test_both_sides_end_alike():
    for english, french in pairs():
        assert (english[-1] == "?", english[-1] == ".") == (french.endswith(" ?"), french[-1] == ".")


def test_every_negation_has_both_its_halves():
    for english, french in pairs():
        negated = re.search(r"\bnot\b|cannot|n't\b", english) is not None
        assert negated == (" pas" in french) == bool(re.search(r"\bn(e |')", french))


# --- Grammar, sentence by sentence ---

JE, YOU, SHE, WE, ALICE = (SUBJECTS[name] for name in ("I", "you", "she", "we", "Alice"))
noun, after = grammar.noun_phrase, grammar.after


def the(name, adjective="", plural=False):
    return noun("the", name, adjective, plural)


def because(mode, actor, verb, thing, about, adjective, past=True, **how):
    return reasons.with_reason(
        mode, past, (actor, the(actor)), verb, (thing, the(thing)), about, adjective, **how
    )


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
    # reasons: the pronoun and the adjective agree with the noun that "it" stands for
    (because(NEGATION, "animal", "cross", "street", "actor", "tired", too=True),
     "The animal did not cross the street because it was too tired",
     "L'animal n'a pas traversé la rue parce qu'il était trop fatigué"),
    (because(NEGATION, "animal", "cross", "street", "thing", "wide", too=True),
     "The animal did not cross the street because it was too wide",
     "L'animal n'a pas traversé la rue parce qu'elle était trop large"),
    (because(NEGATION, "goat", "cross", "bridge", "actor", "tired", too=True),
     "The goat did not cross the bridge because it was too tired",
     "La chèvre n'a pas traversé le pont parce qu'elle était trop fatiguée"),
    (because(NEGATION, "goat", "cross", "bridge", "thing", "narrow", past=False),
     "The goat does not cross the bridge because it is narrow",
     "La chèvre ne traverse pas le pont parce qu'il est étroit"),
    (because(STATEMENT, "mouse", "eat", "cake", "actor", "hungry"),
     "The mouse ate the cake because it was hungry", "La souris a mangé le gâteau parce qu'elle avait faim"),
    (because(STATEMENT, "cat", "drink", "milk", "thing", "delicious", link=","),
     "The cat drank the milk, it was delicious", "Le chat a bu le lait, il était délicieux"),
    (because(STATEMENT, "aunt", "open", "box", "actor", "afraid"),
     "The aunt opened the box because she was afraid", "La tante a ouvert la boîte parce qu'elle avait peur"),
    # words of two senses
    (grammar.clause(STATEMENT, "past", SHE, "go", after("to", noun("the", senses.SENSES["bank", "money"]))),
     "She went to the bank", "Elle est allée à la banque"),
    (grammar.clause(STATEMENT, "past", JE, "sleep", after("on", noun("the", senses.SENSES["bank", "river"])),
                    after("with", noun("my", "boat"))),
     "I slept on the bank with my boat", "J'ai dormi sur la rive avec mon bateau"),
    (grammar.description(STATEMENT, True, noun("the", senses.SENSES["bat", "animal"]), "hungry"),
     "The bat was hungry", "La chauve-souris avait faim"),
    (grammar.description(NEGATION, False, noun("this", senses.SENSES["bat", "sport"]), "heavy", too=True),
     "This bat is not too heavy", "Cette batte n'est pas trop lourde"),
    (grammar.description(STATEMENT, True, noun("the", senses.SENSES["light", "lamp"]), "white"),
     "The light was white", "La lumière était blanche"),
    (grammar.description(STATEMENT, False, noun("our", "bag", plural=True), "light"),
     "Our bags are light", "Nos sacs sont légers"),
    (grammar.clause(STATEMENT, "past", JE, "buy", noun("a", "shirt", "light")),
     "I bought a light shirt", "J'ai acheté une chemise légère"),
    # headlines, jumping over, portraits
    (grammar.clause(STATEMENT, "present", noun("headline", "dog"), "bite", noun("headline", "woman")),
     "Dog bites woman", "Un chien mord une femme"),
    (grammar.clause(STATEMENT, "past", the("goat"), "jump", after("over", the("river"))),
     "The goat jumped over the river", "La chèvre a sauté par-dessus la rivière"),
    (grammar.clause(STATEMENT, "present", the("queen"), "wear", noun("her", "crown")),
     "The queen wears her crown", "La reine porte sa couronne"),
    (grammar.clause(NEGATION, "present", noun("my", "uncle"), "live", after("in", noun("his", "palace"))),
     "My uncle does not live in his palace", "Mon oncle n'habite pas dans son palais"),
    (grammar.clause(STATEMENT, "present", JE, "like", noun("general", "AI")), "I like AI", "J'apprécie l'IA"),
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
        (noun("the", "fox", "quick brown"), "the quick brown fox", "le renard brun rapide"),
        (
            noun("two", "goat", "small white", plural=True),
            "two small white goats",
            "deux petites chèvres blanches",
        ),
        (noun("the", "animal", plural=True), "the animals", "les animaux"),
        (noun("this", "animal"), "this animal", "cet animal"),
        (noun("her", "aunt", "old"), "her old aunt", "sa vieille tante"),
        (noun("the", senses.SENSES["bat", "animal"], plural=True), "the bats", "les chauves-souris"),
    ],
)
def test_noun_phrases_come_out_right(phrase, english, french):
    assert (grammar.join_english(phrase.english), grammar.join_french(phrase.french)) == (english, french)


@pytest.mark.parametrize(
    ("tense", "subject", "english"),
    [
        ("past", SHE, "She didn't see the bat"),
        ("present", SHE, "She doesn't see the bat"),
        ("progressive", WE, "We aren't seeing the bat"),
        ("progressive", JE, "I am not seeing the bat"),
        ("must", WE, "We mustn't see the bat"),
        ("can", WE, "We can't see the bat"),
    ],
)
def test_a_contracted_negation_has_its_places_and_tags(tense, subject, english):
    bat = noun("the", senses.SENSES["bat", "animal"])
    plain = senses.with_sense(grammar.clause(NEGATION, tense, subject, "see", bat), "bat", "animal")
    made = grammar.contracted(plain)
    assert made == (english, plain[1])
    assert tokens_of(english)[made.parts.sense.place[0]] == "bat"
    tags = tool.columns_of(made)["tags"].split()
    assert tags == ["O"] * (len(english.split()) - 2) + ["B-animal", "I-animal"]


def test_an_unknown_tense_is_refused():
    with pytest.raises(ValueError, match="expected present, past"):
        grammar.clause(STATEMENT, "future", JE, "sing")
