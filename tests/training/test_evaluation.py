"""Evaluation: intervals, scores by length, saved evaluations, and the comparison of runs."""

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minitransformer.data.phrasebook import phrasebook
from minitransformer.files import to_json
from minitransformer.runs.evaluations import About, Evaluation, by_length
from minitransformer.tasks import bootstrap
from minitransformer.tasks.bootstrap import differences, intervals
from minitransformer.tasks.language_modelling import score_text
from minitransformer.tasks.metrics import translation_scores
from minitransformer.tasks.scores import Score, accuracy, answer_scores, entity_f1, macro_f1
from tests.tiny import PAIRS, TINY

# ---------------------------------------------------------------- scores


def test_a_score_is_a_plain_number_to_everything_else():
    score = accuracy(["a", "b"], ["a", "c"])
    for same in (copy.deepcopy(score), pickle.loads(pickle.dumps(score)), json.loads(to_json(score))):
        assert type(same) is float
        assert same == score == 0.5


def test_scores_of_some_examples_are_those_of_a_test_set_of_them():
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


def test_the_interval_of_a_share_is_that_of_the_normal_distribution():
    low, high = intervals({"share": Score([(i % 4 == 0, 1) for i in range(2000)])})["share"]
    assert (low, high) == pytest.approx((0.25 - 0.019, 0.25 + 0.019), abs=0.002)  # 1.96 sqrt(p (1 - p) / n)


def test_resamples_do_not_depend_on_how_many_are_drawn_at_a_time(monkeypatch):
    statistics = np.random.default_rng(0).random((9, 2))
    whole = bootstrap.resampled_sums(statistics)
    monkeypatch.setattr(bootstrap, "PART", 9 * 301)
    np.testing.assert_array_equal(bootstrap.resampled_sums(statistics), whole)
    drawn = np.random.default_rng(12345).choice(9, size=(1000, 9), replace=True)  # as in sacreBLEU
    np.testing.assert_allclose(whole, statistics[drawn].sum(1))


def test_equal_runs_differ_by_chance_and_better_ones_do_not():
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


def test_scores_of_a_text_do_not_depend_on_the_size_of_its_blocks():
    table = mg.randn(11, 11)
    bigrams = lambda ids: table[mg.tensor(ids)]
    ids, tokenizer = np.random.default_rng(0).integers(0, 11, 431), SimpleNamespace(kind="char")
    one, other = (score_text(bigrams, tokenizer, ids, size, 4) for size in (7, 64))
    for name in ("loss", "token_accuracy", "bits_per_char"):
        assert one[name].statistics.shape == (5, 2)  # stretches of 100 tokens
        np.testing.assert_allclose(one[name].statistics, other[name].statistics, rtol=1e-5)
    losses = -np.log(np.take_along_axis(table.softmax(-1).numpy()[ids[:-1]], ids[1:, None], 1))
    assert one["loss"] == pytest.approx(losses.mean(), rel=1e-5)


# ---------------------------------------------------------------- sacreBLEU


def sacrebleu(folder, *options):
    command = [sys.executable, "-m", "sacrebleu", "a.ref", "-q", "--no-color", *options]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=True
    ).stdout


def test_scores_intervals_and_paired_test_are_those_of_sacrebleus_command(tmp_path):
    random = np.random.default_rng(0)
    references = [target for _, target in phrasebook().test[:60]]
    references[3] = "Un\u2028chat.\rBon -\nsoir  "

    def noisy(share):
        words = [[w for w in text.split(" ") if random.random() > share] for text in references]
        return [" ".join(kept) for kept in words]

    systems = {"a": noisy(0.15), "b": noisy(0.12)}
    systems["b"][5], systems["b"][7] = "", f"{references[7].upper()} \n"
    found = {}
    for name, hypotheses in systems.items():
        found[name] = translation_scores(hypotheses, references)
        rows = [
            ("source", "reference", "prediction"),
            *(("", r, h) for r, h in zip(references, hypotheses, strict=True)),
        ]
        about = About("translation", "test", "step-1", "greedy", "", "", "")
        for file, content in Evaluation(about, found[name], rows).files().items():
            (tmp_path / file.replace("predictions", name)).write_bytes(content)

    table = sacrebleu(
        tmp_path, "-i", "a.hyp", "b.hyp", "-m", "bleu", "chrf", "--paired-bs", "-f", "text", "-w", "4"
    )
    numbers = [list(map(float, re.findall(r"\d+\.\d+", line))) for line in table.splitlines()]
    one, two, p_values = [line for line in numbers if line][:3]
    compared = differences(*({n: found[s][n] for n in ("bleu", "chrf")} for s in "ab"))
    for name, (score, _, half), (other, _, other_half), p in zip(
        ("bleu", "chrf"), (one[:3], one[3:]), (two[:3], two[3:]), p_values, strict=True
    ):
        for system, shown, shown_half in (("a", score, half), ("b", other, other_half)):
            assert f"{found[system][name]:.4f}" == f"{shown:.4f}"
            low, high = intervals(found[system])[name]
            assert (high - low) / 2 == pytest.approx(shown_half, abs=6e-5)
        assert f"{compared[name].p_value:.4f}" == f"{p:.4f}"
    assert 0.002 < compared["bleu"].p_value < 0.9

    lowercased = json.loads(sacrebleu(tmp_path, "-i", "b.hyp", "-lc", "-w", "9"))
    assert lowercased["score"] == round(found["b"]["bleu_lc_tok"], 9) != round(found["b"]["bleu"], 9)
    assert lowercased["signature"] == found["b"]["bleu_lc_tok_signature"]


# ---------------------------------------------------------------- runs


def test_lengths_are_in_four_groups_that_hold_all_examples():
    lengths = [1, 1, 1, 2, 3, 4, 5, 5, 9, 12]
    groups = by_length({"share": Score([(n > 4, 1) for n in lengths])}, lengths)
    assert [group["words"] for group in groups] == [[1, 1], [2, 3], [4, 5], [9, 12]]
    assert [group["n"] for group in groups] == [3, 2, 3, 2]
    assert [group["share"] for group in groups] == [0, 0, pytest.approx(2 / 3), 1]


def test_each_decoding_and_checkpoint_has_an_evaluation_of_its_own(cli, here):
    files = lambda: {path.name: path.read_bytes() for path in (here / "mine").glob("*.*") if path.is_file()}
    before = files()
    for options, name in (
        (["--num-beams", 2], "step-00000004-num_beams=2"),
        (["--checkpoint", "last"], "step-00000004-greedy"),
    ):
        code, out, _ = cli("evaluate", "mine", "--json", *options)
        assert code == 0
        saved = here / "mine" / "evaluations" / name
        assert json.loads((saved / "metrics.json").read_text()) == json.loads(out)
        assert len((saved / "predictions.hyp").read_text(encoding="utf-8").splitlines()) == 6
    assert files() == before | {"README.md": files()["README.md"]}  # which has the new scores
    (here / "mine" / "evaluations" / name / "notes.txt").write_text("mine")
    assert (
        cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY)[0] == 0
    )
    left = [path.name for path in (here / "mine" / "evaluations").rglob("*") if path.is_file()]
    assert left == ["notes.txt"]


def test_an_evaluation_removes_what_a_killed_one_left(cli, here):
    left = [here / "mine" / f".{name}.0123abcd.minigrad" for name in ("metrics.json", "README.md")]
    own = here / "mine" / ".notes.txt.0123abcd.minigrad"
    for path in (*left, own):
        path.touch()
    assert cli("evaluate", "mine")[0] == 0
    assert not any(path.exists() for path in left)
    assert own.exists()


def test_runs_are_compared_on_what_was_saved(cli, here):
    assert cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "other", *TINY, "--seed", 1)[0] == 0
    code, out, err = cli("compare", "mine", "other", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    scores = [json.loads((here / run / "metrics.json").read_text()) for run in ("mine", "other")]
    assert (found["n"], found["scores"].keys()) == (6, scores[0]["intervals"].keys())
    loss = found["scores"]["loss"]
    assert [loss["baseline"], loss["run"]] == pytest.approx([score["loss"] for score in scores])
    assert loss["difference"] == loss["run"] - loss["baseline"]
    statistics = here / "other" / "statistics.safetensors"
    statistics.write_bytes(statistics.read_bytes()[:-8])  # damaged: evaluated again
    code, again, err = cli("compare", "mine", "other", "--json")
    assert (code, again) == (0, out)
    assert err == "evaluating other, step-00000004 (greedy)\n"
    code, out, err = cli("compare", "mine", "other", "--num-beams", 2)
    assert (code, err.count("evaluating")) == (0, 2)
    assert re.search(r"^loss, nats .* \[.+, .+\] +\d\.\d{4} ", out, re.MULTILINE)
    code, out, _ = cli("compare", "mine", Path("mine", "evaluations", "step-00000004-num_beams=2"))
    assert code == 0
    assert re.search(r"^loss, nats .* 1\.0000 +equal$", out, re.MULTILINE)


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
    assert "data       both.tsv, 3 examples" in out
    assert "not compared, because the tokenizers differ: loss" in out
