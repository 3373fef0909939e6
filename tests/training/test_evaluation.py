"""Evaluation: intervals, scores by length, saved evaluations, and the comparison of runs."""

import copy
import json
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minitransformer.files import to_json
from minitransformer.runs.evaluations import by_length
from minitransformer.tasks import bootstrap
from minitransformer.tasks.bootstrap import differences, intervals
from minitransformer.tasks.language_modelling import score_text
from minitransformer.tasks.metrics import translation_scores
from minitransformer.tasks.scores import Score, accuracy, answer_scores, entity_f1, macro_f1
from tests.tiny import PAIRS, TINY

# ---------------------------------------------------------------- scores


def test_scores_are_serialized_as_plain_floats():
    score = accuracy(["a", "b"], ["a", "c"])
    for same in (copy.deepcopy(score), pickle.loads(pickle.dumps(score)), json.loads(to_json(score))):
        assert type(same) is float
        assert same == score == 0.5


def test_resampled_scores_match_scores_of_those_examples():
    predicted, expected = list("aabbcab"), list("abbbcca")
    tags = [["B-x", "O"], ["O", "O"], ["B-x", "I-x"], ["B-y", "O"], ["O"], ["B-x"], ["B-y", "B-y"]]
    rows = np.array([5, 0, 3, 3])
    pick = lambda values: [values[i] for i in rows]
    for measure, p, e in (
        (accuracy, predicted, expected),
        (macro_f1, predicted, expected),
        (entity_f1, tags, tags[:2] + tags[:1] + tags[3:]),
        (lambda p, e: answer_scores(p, e)["f1"], predicted, expected),
        (lambda p, e: translation_scores(p, e)["chrf"], predicted, expected),
    ):
        assert measure(p, e).of(rows) == pytest.approx(measure(pick(p), pick(e)), abs=1e-12)


def test_proportion_intervals_match_the_normal_approximation():
    low, high = intervals({"share": Score([(i % 4 == 0, 1) for i in range(2000)])})["share"]
    assert (low, high) == pytest.approx((0.25 - 0.019, 0.25 + 0.019), abs=0.002)  # 1.96 sqrt(p (1 - p) / n)


def test_resamples_do_not_depend_on_chunk_size(monkeypatch):
    statistics = np.random.default_rng(0).random((9, 2))
    whole = bootstrap.resampled_sums(statistics)
    monkeypatch.setattr(bootstrap, "PART", 9 * 301)
    np.testing.assert_array_equal(bootstrap.resampled_sums(statistics), whole)
    drawn = np.random.default_rng(12345).choice(9, size=(1000, 9), replace=True)  # as in sacreBLEU
    np.testing.assert_allclose(whole, statistics[drawn].sum(1))


def test_only_better_runs_differ_significantly():
    right = np.random.default_rng(0).random(400) < 0.5
    one, same, better = (
        Score([(hit, 1) for hit in hits]) for hits in (right, right[::-1], right | (right[::-1]))
    )
    found = differences({"a": one, "b": one, "c": one}, {"a": same, "b": better, "c": one})
    assert found["a"].p_value > 0.3
    assert found["a"].low < 0 < found["a"].high
    assert found["b"].p_value == 1 / 1001
    assert found["b"].low > 0.1
    assert found["c"] == (0, 0, 0, 1)


def test_scores_of_a_text_do_not_depend_on_block_size():
    table = mg.randn(11, 11)
    bigrams = lambda ids: table[mg.tensor(ids)]
    ids, tokenizer = np.random.default_rng(0).integers(0, 11, 431), SimpleNamespace(kind="char")
    one, other = (score_text(bigrams, tokenizer, ids, size, 4) for size in (7, 64))
    for name in ("loss", "token_accuracy", "bits_per_char"):
        assert one[name].statistics.shape == (5, 2)  # stretches of 100 tokens
        np.testing.assert_allclose(one[name].statistics, other[name].statistics, rtol=1e-5)
    losses = -np.log(np.take_along_axis(table.softmax(-1).numpy()[ids[:-1]], ids[1:, None], 1))
    assert one["loss"] == pytest.approx(losses.mean(), rel=1e-5)  # in nats
    assert one["bits_per_char"] == pytest.approx(one["loss"] / np.log(2))
    tokenizer = SimpleNamespace(kind="word")
    assert score_text(bigrams, tokenizer, ids, 7, 4).keys() == {"loss", "token_accuracy"}


# ---------------------------------------------------------------- sacreBLEU


def sacrebleu(folder, *options):
    command = [sys.executable, "-m", "sacrebleu", "a.ref", "-q", "--no-color", *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=True
    ).stdout


@pytest.mark.parametrize(
    ("tokenizer", "reference", "one_word_wrong"),
    [
        ("13a", "the cat sat on the mat here", "the cat sat on the rug here"),
        ("13a", "le chat voit le chien du roi", "le chat voit le rat du roi"),
        ("13a", "그 고양이 는 오늘 도 물고기 를", "그 고양이 는 오늘 도 고기 를"),
        ("zh", "我喜欢猫吃鱼", "我喜欢猫吃肉"),
        ("zh", "他用 PyTorch 和我看见狗", "他用 PyTorch 和我看见猫"),
        ("char", "わたしは猫がすき", "わたしは犬がすき"),
        ("char", "ฉันรักแมว", "ฉันรักหมา"),
    ],
)
def test_scores_tokenize_by_script(tokenizer, reference, one_word_wrong):
    scores = translation_scores([one_word_wrong], [reference])
    assert f"|tok:{tokenizer}|" in scores["bleu_signature"]
    assert f"|tok:{tokenizer}|" in scores["bleu_lc_tok_signature"]
    assert 30 < scores["bleu"] < 100  # 4-grams are found beside the wrong word
    assert 0.3 < answer_scores([one_word_wrong], [reference])["f1"] < 1


# ---------------------------------------------------------------- runs


def test_length_groups_contain_all_examples():
    lengths = [1, 1, 1, 2, 3, 4, 5, 5, 9, 12]
    groups = by_length({"share": Score([(n > 4, 1) for n in lengths])}, lengths)
    assert [group["words"] for group in groups] == [[1, 1], [2, 3], [4, 5], [9, 12]]
    assert [group["n"] for group in groups] == [3, 2, 3, 2]
    assert [group["share"] for group in groups] == [0, 0, pytest.approx(2 / 3), 1]


def test_evaluate_removes_leftovers_of_a_killed_evaluation(cli, here):
    left = [here / "mine" / f".{name}.0123abcd.minigrad" for name in ("metrics.json", "README.md")]
    own = here / "mine" / ".notes.txt.0123abcd.minigrad"
    for path in (*left, own):
        path.touch()
    assert cli("evaluate", "mine")[0] == 0
    assert not any(path.exists() for path in left)
    assert own.exists()


@pytest.mark.slow
def test_only_runs_with_the_same_test_examples_are_compared(cli, here):
    other = "".join(f"{a}\t{b}\n" for a, b in PAIRS[5:])
    (here / "other.tsv").write_text(other, encoding="utf-8")
    assert cli("train", "phrasebook", "--data", "other.tsv", "--run-dir", "other", *TINY)[0] == 0
    for argv, words in (
        (["mine", "other"], "mine and other have different test data"),
        (["mine", "play", "--num-beams", "2"], "mine has the task translation, play the task language-"),
        (["mine"], "compare needs at least two runs, got 1"),
        (["play", "play", "--num-beams", "2"], "--num-beams has no effect"),
    ):
        code, out, err = cli("compare", *argv)
        assert (code, out) == (2, "")
        assert words in err
    (here / "both.tsv").write_text(other[: other.index("\n") + 1] * 3, encoding="utf-8")
    code, out, err = cli("compare", "mine", "other", "--data", "both.tsv")
    assert code == 0
    assert "data      both.tsv, 3 examples" in out
    assert "not compared, because the tokenizers differ: loss" in out
