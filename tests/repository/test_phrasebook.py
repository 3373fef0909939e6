"""The built-in corpus: its size, its split, and above all the grammar that drew it."""

import gzip
import re
from collections import Counter
from functools import cache

import pytest

from minitransformer.data.phrasebook import (
    DOCUMENT_SENTENCES,
    NEGATION,
    STATEMENT,
    tokens_of,
    word_forms,
)
from minitransformer.data.phrasebook import phrasebook as book
from minitransformer.text.tokenizer import Tokenizer
from tools import phrasebook as tool
from tools.phrasebook import bare, documents, grammar, patterns, reasons, senses
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
def test_held_out_words_are_frequent_in_training(language):
    train = forms(book().train, language)
    test = forms(book().test, language)
    assert min(train[form] for form in test) >= 10


@pytest.mark.parametrize("language", [0, 1])
def test_no_word_is_too_rare_to_learn(language):
    assert min(forms(book().train, language).values()) >= 8


def test_the_document_sentences_are_in_training():
    assert set(DOCUMENT_SENTENCES) <= set(book().train)


def test_other_document_sentences_are_in_the_test_split():
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


TEXTS = """I love you. You love I. AI love I. I love AI. I love cats. love like king queen man woman apple
    The cat sat on the mat, The cat sat on the mat because it was tired The dog chased the cat
    The animal didn't cross the street because it was too tired. The animal did not cross it, too wide.
    He isn't, they aren't, she wasn't, we weren't, I don't, she doesn't, you can't, we mustn't
    The cat ate the fish, it was delicious, I went to the bank. bank river money Dog bites man. Man bites dog.
    The quick brown fox jumped over the lazy dog. Je t' aime J'aime l'IA J'aime les chats."""


def test_the_vocabulary_covers_the_words_of_the_documents():
    assert tokenizer().unknown_words(TEXTS) == []


def test_held_out_sentences_cover_all_sentence_types():
    held_out = "\n".join(english for english, _ in book().test)
    for kind in (r"\?$", " not |cannot", "n't ", "^There ", "^(This|These) (is|are)", r" (me|him|us|them)\b"):
        assert re.search(kind, held_out, re.MULTILINE)


def test_a_quarter_of_statements_lack_a_full_stop():
    statements = [english for english, _ in pairs() if not english.endswith("?")]
    share = sum(not english.endswith(".") for english in statements) / len(statements)
    assert 0.2 < share < 0.3


# --- What "it" refers to, words of two senses, the order of words ---


def test_pronoun_references_point_to_the_right_words():
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


def test_the_word_it_occurs_only_in_reasons_with_a_reference():
    for pair in sentences():
        if re.search(r"\bit\b", pair[0], re.IGNORECASE):
            assert pair.reference
            assert re.search(r"(because|,) it (is|was) ", pair[0])


def test_the_word_it_refers_to_either_noun_equally_often():
    its = [pair.reference for pair in sentences() if pair.reference and pair.tags.startswith("B-animal")]
    share = sum(reference.noun < reference.other for reference in its) / len(its)
    assert 0.4 < share < 0.6


def test_only_the_adjective_resolves_the_pronoun():
    for scene in reasons.SCENES:
        for mode in (STATEMENT, NEGATION):
            actor, thing = (set(scene.reasons[about, mode].split()) for about in ("actor", "thing"))
            assert actor
            assert thing
            assert not actor & thing


def test_token_positions_match_the_word_tokenizer():
    for pair in book().test:
        for text in pair:
            assert [token.strip() for token in tokenizer().tokens(text)] == tokens_of(text)


def test_ambiguous_words_are_translated_by_their_sense():
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


def test_every_ambiguous_word_is_annotated_with_a_sense():
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


def test_minimal_pairs_are_never_split_across_splits():
    assert len(minimal_pairs(pairs())) == len(minimal_pairs(book().train)) + len(minimal_pairs(book().test))


# --- Determinism ---


@pytest.mark.slow
@pytest.mark.parametrize("path", tool.FILES, ids=lambda path: path.name)
def test_packaged_data_files_match_the_generator(path):
    written = gzip.decompress(path.read_bytes()).decode()
    assert written == tool.to_lines(tool.FILES[path]()), "run python -m tools.phrasebook"


@pytest.mark.slow
def test_a_different_seed_gives_a_different_corpus():
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


def test_a_and_an_are_used_correctly():
    for pair in sentences():
        texts = pair.subject, pair.negation, pair.question, pair.short, *sum(pair.asked or (), ())
        assert not [text for text in texts if re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", text)]


def test_both_sides_have_the_same_final_punctuation():
    for english, french in pairs():
        assert (english[-1] == "?", english[-1] == ".") == (french.endswith(" ?"), french[-1] == ".")


def test_every_french_negation_has_ne_and_pas():
    for english, french in pairs():
        negated = re.search(r"\bnot\b|cannot|n't\b", english) is not None
        assert negated == (" pas" in french) == bool(re.search(r"\bn(e |')", french))
