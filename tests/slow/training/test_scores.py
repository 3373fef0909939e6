"""Scores, their intervals and tests beside sacrebleu's command; evaluations of several decodings and runs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from minitransformer.data.phrasebook import phrasebook
from minitransformer.runs.evaluations import About, Evaluation
from minitransformer.tasks.bootstrap import differences, intervals
from minitransformer.tasks.metrics import translation_scores
from tests.tiny import TINY
from tests.training.test_evaluation import sacrebleu


def test_scores_intervals_and_paired_test_match_sacrebleu(tmp_path):
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


def test_compare_uses_saved_evaluations(cli, here):
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


def test_each_decoding_and_checkpoint_has_its_own_evaluation(cli, here):
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
    assert files() == before | {"README.md": files()["README.md"]}  # README.md has the new scores
    (here / "mine" / "evaluations" / name / "notes.txt").write_text("mine")
    again = ("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--overwrite", *TINY)
    assert cli(*again)[0] == 0
    left = [path.name for path in (here / "mine" / "evaluations").rglob("*") if path.is_file()]
    assert left == ["notes.txt"]
