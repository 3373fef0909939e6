"""Data and objectives: what is generated, labelled, masked and corrupted, and how it is scored."""

import io
import itertools
import re
import zipfile
from collections import Counter

import numpy as np
import pytest

from minitransformer.data import denoising, digits, generated, labels, masking
from minitransformer.data.batching import IGNORE
from minitransformer.data.phrasebook import sentence_splits
from minitransformer.data.rows import DataError
from minitransformer.tasks import scores
from minitransformer.text.tokenizer import Tokenizer, TokenizerError
from minitransformer.text.tokenizer_presets import BERT_TOKENS, MASK, SPECIAL_TOKENS, sentinels

# ---------------------------------------------------------------- generated


@pytest.mark.parametrize("make", [generated.reverse, generated.addition, generated.brackets])
def test_no_generated_example_is_in_two_splits(make):
    splits = make(count=200)
    texts = [text for split in splits.values() for text, _ in split]
    assert len(set(texts)) == len(texts) == 1200
    assert make(count=200) == splits


def test_generated_examples_are_correct():
    for text, backwards in generated.reverse(count=50)["test"]:
        assert text.split() == backwards.split()[::-1]
    for problem, total in generated.addition(count=50)["test"]:
        a, b, c = (int(number.replace(" ", "")[::-1]) for number in (*problem.split(" + "), total))
        assert a + b == c
    for text, label in generated.brackets(count=50)["test"]:
        shorter = text.replace(" ", "")
        while shorter != (shorter := re.sub(r"\(\)|\[\]", "", shorter)):
            pass
        assert (shorter == "") == (label == "balanced")


def test_brackets_cannot_be_classified_by_counting():
    splits = generated.brackets(count=500)
    counted = {(tuple(sorted(Counter(text).items())), label) for text, label in splits["train"]}
    balanced = {counts for counts, label in counted if label == "balanced"}
    unbalanced = {counts for counts, label in counted if label == "unbalanced"}
    assert len(balanced & unbalanced) > 20
    assert all(dict(c).get("(", 0) == dict(c).get(")", 0) for c in unbalanced)


# ---------------------------------------------------------------- the phrasebook's labels


@pytest.fixture(scope="module")
def sentences():
    return sentence_splits()


def test_sentence_kinds_and_objects_match_the_words(sentences):
    for text, kind in labels.label_sentences(sentences["test"], "kind"):
        negated = re.search(r" not |cannot|n't ", text)
        assert kind == ("question" if text.endswith("?") else "negation" if negated else "statement")
    for text, kind in labels.label_sentences(sentences["train"], "object"):
        if re.search(r" (drink|drank|drinking|drinks) ", text):
            assert kind == "food"


def test_entities_are_nouns_with_their_determiners(sentences):
    found = Counter()
    for words, tags in labels.tag_sentences(sentences["train"]):
        assert len(words) == len(tags)
        for kind, start, end in scores.entities(tags):
            found[" ".join(words[start:end]).lower(), kind] += 1
        assert words[-1] not in ".?" or tags[-1] == "O"
    assert found["the cat", "animal"]
    assert found["marie", "person"]
    assert found["every day", "time"]
    assert not any(
        re.search(r"\b(in|on|to|is|not|cannot)\b|n't", text) for text, kind in found if kind != "time"
    )


def test_generated_answers_occur_in_their_context(sentences):
    examples = labels.make_questions(sentences["test"])
    assert len(examples) > 100
    for question, context, answer, *_ in examples:
        assert question.endswith("?")
        assert answer in context
        assert context.count(".") == 3


def test_reasons_are_not_in_questions_or_entities(sentences):
    reasons = [pair for pair in sentences["train"] if pair.reference]
    assert len(reasons) > 500
    for question, answer in (asked for pair in reasons for asked in pair.asked or ()):
        assert not re.search(r"because|,|\b(it|he|she)\b", f"{question} {answer}")
    for words, tags in labels.tag_sentences(reasons):
        start = words.index("because") if "because" in words else words.index(",")
        assert set(tags[start:]) == {"O"}
        assert sum(tag.startswith("B-") for tag in tags) == 2


# ---------------------------------------------------------------- masking


def test_masked_random_and_unchanged_tokens_have_right_shares():
    ids = np.arange(7, 107)
    chosen = 0
    kinds = Counter()
    for row in range(500):
        random = masking.row_generator(0, masking.MASKING, 3, row)
        read, targets = masking.mask_tokens(ids, ids % 10 != 0, 6, (7, 1000), random)
        places = targets != IGNORE
        assert (targets[places] == ids[places]).all()
        assert (read[~places] == ids[~places]).all()
        assert not (places & (ids % 10 == 0)).any()
        chosen += int(places.sum())
        kinds.update(np.where(read == 6, "mask", np.where(read == ids, "same", "random"))[places].tolist())
    assert chosen / (500 * 90) == pytest.approx(0.15, abs=0.003)
    assert [kinds[k] / chosen for k in ("mask", "random", "same")] == pytest.approx(
        [0.8, 0.1, 0.1], abs=0.015
    )


def test_at_least_one_maskable_token_is_masked():
    random = masking.row_generator(0, masking.MASKING, 0, 0)
    assert (
        masking.mask_tokens(np.array([4, 9, 5]), np.array([0, 1, 0], bool), 6, (7, 9), random)[1] == 9
    ).any()
    assert (masking.mask_tokens(np.array([4, 5]), np.zeros(2, bool), 6, (7, 9), random)[1] == IGNORE).all()


def test_half_of_the_second_sentences_are_from_other_documents():
    examples = [("a", "b", "0"), ("c", "d", "1"), ("d", "e", "1"), ("f", "g", "2")]
    drawn = [
        masking.next_or_other(examples[1], examples, masking.row_generator(0, masking.PAIRING, 0, row))
        for row in range(2000)
    ]
    for (first, second, _), follows in drawn:
        assert first == "c"
        assert second == "d" if follows else second in ("b", "g")
    assert np.mean([follows for _, follows in drawn]) == pytest.approx(0.5, abs=0.04)


# ---------------------------------------------------------------- denoising


@pytest.mark.parametrize("length", [2, 3, 7, 40, 200])
def test_sentinels_restore_corrupted_spans(length):
    random = np.random.default_rng(length)
    ids, marks = list(range(100, 100 + length)), list(range(50))
    for _ in range(20):
        spans = denoising.corrupted_spans(length, random)
        assert sum(b - a for a, b in spans) == max(round(0.15 * length), 1)
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
        source, target = denoising.span_corruption(ids, spans, marks)
        assert denoising.fill_spans(source, target, marks) == ids
        assert target[-1] == len(spans)
        assert len(source) + len(target) == length + 2 * len(spans) + 1


def test_every_token_can_be_corrupted():
    random = np.random.default_rng(0)
    counts = np.zeros(20)
    for _ in range(4000):
        for start, end in denoising.corrupted_spans(20, random):
            counts[start:end] += 1
    assert counts.sum() == 4000 * 3
    assert counts.min() > 100


def test_the_example_of_the_t5_paper_is_reproduced():
    text = ["Thank", "you", "for", "inviting", "me", "to", "your", "party", "last", "week"]
    ids = {word: i for i, word in enumerate([*text, "<X>", "<Y>", "<Z>", "<M>"])}
    spell = {i: word for word, i in ids.items()}
    marks = [ids["<X>"], ids["<Y>"], ids["<Z>"]]
    source, target = denoising.span_corruption([ids[w] for w in text], [(2, 4), (8, 9)], marks)
    assert " ".join(spell[i] for i in source) == "Thank you <X> me to your party <Y> week"
    assert " ".join(spell[i] for i in target) == "<X> for inviting <Y> last <Z>"
    source, target = denoising.text_infilling([ids[w] for w in text], [(2, 4), (8, 8)], ids["<M>"])
    assert " ".join(spell[i] for i in source) == "Thank you <M> me to your party <M> last week"
    assert target == [ids[w] for w in text]


def test_infilled_spans_have_poisson_lengths():
    random = np.random.default_rng(0)
    drawn = [denoising.infilled_spans(400, random) for _ in range(100)]
    sizes = np.array([end - start for spans in drawn for start, end in spans[:-1]])  # the last is cut off
    assert sizes.mean() == pytest.approx(3, abs=0.12)
    assert sizes.var() == pytest.approx(3, abs=0.4)
    assert sizes.min() == 0
    for spans in drawn:
        assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))
        assert 0.2 < sum(end - start for start, end in spans) / 400 <= 0.3


# ---------------------------------------------------------------- special tokens


@pytest.mark.parametrize("kind", ["word", "bpe", "wordpiece", "char"])
def test_added_special_tokens_follow_the_first_four(kind):
    added = [*BERT_TOKENS, *sentinels(2)]
    size = {"vocab_size": 60} if kind in ("bpe", "wordpiece") else {}
    tokenizer = getattr(Tokenizer, f"train_{kind}")(
        ["the cats sat on the mats", "a cat"], added=added, **size
    )
    assert [tokenizer.id_to_token[i] for i in range(9)] == [*SPECIAL_TOKENS, *added]
    assert tokenizer.first_ordinary_id == 9
    assert tokenizer.decode([tokenizer.special_id(MASK), *tokenizer.encode("the cats")]) == "the cats"
    assert tokenizer.special_id(MASK) not in tokenizer.encode("the [MASK] sat")  # a user's text has no masks


def test_missing_special_tokens_are_named():
    with pytest.raises(TokenizerError, match=r"no special token \[MASK\]"):
        Tokenizer.train_word(["a cat"]).special_id(MASK)


# ---------------------------------------------------------------- images


def test_digits_have_a_fixed_split():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (extra `digits`)")
    splits = digits.digits()
    assert {name: len(split.labels) for name, split in splits.items()} == {
        "train": 1300, "validation": 100, "test": 397,
    }  # fmt: skip
    assert splits["test"].labels[:8].tolist() == digits.digits()["test"].labels[:8].tolist()
    assert splits["train"].images.shape == (1300, 1, 8, 8)
    assert splits["train"].images.max() == 1


def test_digits_without_scikit_learn_explain_how_to_install_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(digits, "import_module", missing)
    with pytest.raises(DataError, match=r"pip install 'minitransformer\[digits\]'"):
        digits.digits()


def test_warped_images_are_moved_turned_and_scaled():
    random = [masking.row_generator(0, digits.WARPS, 0, row) for row in range(200)]
    images = np.zeros((200, 1, 9, 9), np.float32)
    images[:, :, 3:6, 4] = 1  # a vertical line in the middle
    np.testing.assert_allclose(digits.warp_images(images, random), images, atol=1e-6)
    moved = digits.warp_images(images, random, shift=2.0)
    np.testing.assert_allclose(moved.sum((1, 2, 3)), 3, rtol=1e-5)  # nothing is lost but at the edge
    rows, columns = np.mgrid[:9, :9]
    places = (moved[:, 0] * rows).sum((1, 2)) / 3, (moved[:, 0] * columns).sum((1, 2)) / 3
    for place in places:
        assert place.min() == pytest.approx(2, abs=0.2)
        assert place.max() == pytest.approx(6, abs=0.2)
    turned = digits.warp_images(images, random, rotation=90.0)[:, 0]
    assert (turned[:, 4, 3] > 0.9).any()  # some lines lie flat
    sizes = digits.warp_images(images, random, scale=0.5).sum((1, 2, 3))
    assert sizes.min() < 2.2
    assert sizes.max() > 5


def test_user_image_files_are_read_and_validated(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, images=np.arange(48, dtype=np.uint8).reshape(4, 2, 2, 3), labels=np.array([0, 1, 1, 2]))
    found = digits.read_images(path)
    assert found.images.shape == (4, 3, 2, 2)
    assert found.images.max() == 1
    np.savez(path, images=np.zeros((4, 2, 2)), labels=np.array([0, 1]))
    with pytest.raises(DataError, match=r"labels must be integers from 0 to 2\*\*63 - 1 of shape \(4,\)"):
        digits.read_images(path)
    np.savez(path, images=np.zeros((1, 2, 2)), labels=np.array([2**63], np.uint64))
    with pytest.raises(DataError, match="labels must be integers from 0"):
        digits.read_images(path)


def npy(header):
    """An .npy file with this header and no data."""
    text = f"{header}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def zipped(content):
    """An .npz file with this array."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("images.npy", content)
    return file.getvalue()


NO_IMAGES = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}")
HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK nothing", "is not an .npz"),
        (NO_IMAGES, "is not an .npz"),
        (zipped(npy(HUGE)), "is not an .npz"),
        (zipped(npy("{'descr': (")), "is not an .npz"),
        (zipped(b"\x93NUMPY\x02\x00" + b"\xff" * 4), "is not an .npz"),  # a header of 4 GB
        (zipped(NO_IMAGES), "images and labels: no array labels, found images"),
    ],
    ids=["damaged", "npy", "huge", "header", "long header", "labels"],
)
def test_files_without_images_are_rejected(tmp_path, content, message):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        digits.read_images(path)


# ---------------------------------------------------------------- scores


def test_macro_f1_matches_a_hand_computed_value():
    expected = ["a", "a", "a", "b"]
    predicted = ["a", "a", "b", "b"]
    assert scores.accuracy(predicted, expected) == 0.75
    assert scores.macro_f1(predicted, expected) == pytest.approx((0.8 + 2 / 3) / 2)  # a: 1, 2/3; b: 1/2, 1


def test_entities_are_extracted_from_tags():
    assert scores.entities(["B-x", "I-x", "O", "B-y", "B-y"]) == {("x", 0, 2), ("y", 3, 4), ("y", 4, 5)}
    assert scores.entities(["I-x", "I-y", "O", "I-x"]) == {("x", 0, 1), ("y", 1, 2), ("x", 3, 4)}
    assert scores.entities(["O"]) == set()
    assert scores.entities(["B", "I", "O", "B", "B"]) == {("", 0, 2), ("", 3, 4), ("", 4, 5)}
    assert scores.entities(["I", "O", "I", "I"]) == {("", 0, 1), ("", 2, 4)}


def test_entity_f1_matches_a_hand_computed_value():
    expected = [["B-x", "I-x", "O", "B-y"], ["O", "O"]]
    predicted = [["B-x", "O", "O", "B-y"], ["B-x", "O"]]  # 1 of 3 predicted is right, and 1 of 2 was found
    assert scores.entity_f1(predicted, expected) == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert scores.entity_f1(expected, expected) == 1
    assert scores.entity_f1([["O"]], [["B-x"]]) == 0


def test_answer_scores_match_hand_computed_values():
    found = scores.answer_scores(["The old dog.", "a cat", ""], ["the dog", "Cat", "mat"])
    assert found["exact_match"] == pytest.approx(1 / 3)
    assert found["f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)


@pytest.mark.parametrize(
    ("predicted", "right", "exact_match", "f1"),
    [
        ("the dog", ("a cat", "dog"), 1, 1),
        ("the dog", ("dog", "a cat"), 1, 1),
        ("old dog", ("cat", "the dog", "a very old dog"), 0, 4 / 5),
        ("cat", ("dog", "cow"), 0, 0),
        ("", ("cat", "the"), 1, 1),
    ],
)
def test_the_best_matching_right_answer_is_scored(predicted, right, exact_match, f1):
    found = scores.answer_scores([predicted], [right])
    assert (found["exact_match"], found["f1"]) == (exact_match, pytest.approx(f1))
