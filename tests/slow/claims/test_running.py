"""Studies of a claim whose measures are known."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from minitransformer.claims.claim import CLAIMS, Rule, Trial, claim
from minitransformer.claims.figure import figure
from minitransformer.claims.result import describe, read_result, write_result
from minitransformer.claims.running import TUNING_SEEDS, Study
from minitransformer.claims.verdict import HOLDS, UNKNOWN
from minitransformer.cli import main
from minitransformer.errors import UserError

ROOT = Path(__file__).parents[2]
BEST = {"a": 1e-2, "b": 1e-3}  # the rate at which an arm has its lowest loss
NOISE = {"small": 0.0, "large": 1.0}  # of its difference from the other arm


@pytest.fixture
def known():
    """A claim whose arms differ by 0.3, or in the other case by -2.7 to 1.3."""

    @claim(
        question="Is a better?",
        says={"A paper, section 1": "a is better"},
        setting="Made by hand.",
        measures={"loss": "nats", "parameters": "number of parameters"},
        arms=("a", "b"),
        cases=("small",),
        rates=(1e-3, 3e-3),
        rules=(Rule("a: loss", "b: loss", by=0.1),),
    )
    def known(trial):
        noise = NOISE[trial.case] * (-1) ** trial.seed * (trial.arm == "a")
        loss = 1 + 0.3 * (trial.arm == "b") + noise + (trial.rate / BEST[trial.arm] - 1) ** 2
        return {"loss": loss, "parameters": 10}

    yield known
    del CLAIMS["known"]


def run(study):
    """Run it to the end, and return the trials that ran."""
    ran = []
    with ThreadPoolExecutor(1) as pool:
        study.run(pool, lambda line: ran.append(line["trial"]))
    return ran


def test_arms_are_compared_at_their_best_learning_rate(known, tmp_path):
    study = Study(known, tmp_path)
    run(study)
    assert list(study.tuned("a", "small")) == pytest.approx([1e-3, 3e-3, 9e-3, 2.7e-2])
    assert study.best_rate("a", "small") == pytest.approx(9e-3)
    assert list(study.tuned("b", "small")) == pytest.approx([1e-3 / 3, 1e-3, 3e-3])
    assert study.best_rate("b", "small") == 1e-3


def test_a_rate_best_with_only_one_seed_is_not_chosen(known, tmp_path):
    lucky = replace(known, rates=(1e-3, 5e-3, 1e-2, 2e-2))
    study = Study(lucky, tmp_path)
    for rate, losses in {1e-3: (3, 3), 5e-3: (2, 2), 1e-2: (1, 4), 2e-2: (5, 5)}.items():
        for seed, loss in zip(TUNING_SEEDS, losses, strict=True):
            trial = asdict(Trial("a", "small", rate, seed))
            study.journal.add({"trial": trial, "measures": {"loss": loss}, "seconds": 1})
    assert study.best_rate("a", "small") == 5e-3


def test_compared_seeds_are_not_used_for_tuning(known, tmp_path):
    ran = run(Study(known, tmp_path, first_seed=40))
    compared = [trial for trial in ran if trial["seed"] not in TUNING_SEEDS]
    assert {trial["seed"] for trial in compared} == {40, 41, 42, 43, 44}
    assert len(compared) == 10


def test_five_more_seeds_run_only_in_unclear_cases(known, tmp_path):
    unclear = replace(known, cases=("small", "large"))
    ran = run(Study(unclear, tmp_path))
    seeds = {case: {trial["seed"] for trial in ran if trial["case"] == case} for case in unclear.cases}
    assert seeds["small"] == {*range(5), *TUNING_SEEDS}
    assert seeds["large"] == {*range(10), *TUNING_SEEDS}


def test_an_interrupted_study_still_runs_ten_seeds_if_unclear(known, tmp_path):
    unclear = replace(known, cases=("large",))
    whole = run(Study(unclear, tmp_path))
    path = tmp_path / "known.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for missing in range(1, 10):  # killed in the second five
        path.write_text("".join(lines[:-missing]))
        assert len(run(Study(unclear, tmp_path))) == missing
    assert len(path.read_text().splitlines()) == len(whole)


def test_non_finite_measures_rank_worst(known, tmp_path):
    study = Study(known, tmp_path)
    for rate, loss in {1e-3: None, 3e-3: 2.0, 9e-3: None}.items():
        for seed in TUNING_SEEDS:
            trial = asdict(Trial("a", "small", rate, seed))
            study.journal.add({"trial": trial, "measures": {"loss": loss}, "seconds": 1})
    assert study.best_rate("a", "small") == 3e-3
    nothing = replace(known, measure=lambda trial: {"loss": math.nan, "parameters": 1})
    CLAIMS["known"] = nothing
    run(Study(nothing, tmp_path / "nan"))
    result = write_result(Study(nothing, tmp_path / "nan"), tmp_path / "nan")
    assert result["verdict"] == UNKNOWN
    assert figure(read_result(nothing, tmp_path / "nan")).axes


def test_an_interrupted_study_resumes(known, tmp_path):
    whole = run(Study(known, tmp_path))
    path = tmp_path / "known.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:6]) + lines[6][:20])  # killed in the seventh
    in_order = lambda trials: sorted(trials, key=json.dumps)
    assert in_order(run(Study(known, tmp_path))) == in_order(whole[6:])
    assert run(Study(known, tmp_path)) == []


@pytest.mark.parametrize("damage", ["[1]", "text", '{"trial": {"arm": "a"}}', "measures", "share", "words"])
def test_invalid_journal_lines_are_measured_again(known, tmp_path, damage):
    run(Study(known, tmp_path))
    path = tmp_path / "known.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    line = json.loads(first)
    changed = {
        "measures": line | {"measures": {}},
        "share": line | {"trial": {key: x for key, x in line["trial"].items() if key != "seed"}},
        "words": line | {"measures": {"loss": "small"}},
    }
    path.write_text(json.dumps(changed[damage]) + "\n" if damage in changed else damage + "\n")
    with path.open("a") as file:
        file.writelines(others)
    assert run(Study(known, tmp_path)) == [line["trial"]]


def test_measurements_of_other_code_are_kept_but_not_used(known, tmp_path):
    run(Study(known, tmp_path))
    path = tmp_path / "known.jsonl"
    old = path.read_text()
    path.write_text(old.replace(known.code, "0" * 12))
    assert len(run(Study(known, tmp_path))) == len(old.splitlines())
    assert path.read_text().startswith(old.replace(known.code, "0" * 12))


def test_quick_runs_are_not_used_as_measurements(known, tmp_path):
    quick = run(Study(known, tmp_path, is_quick=True))
    assert [(trial["arm"], trial["share"] < 1) for trial in quick] == [("a", True), ("b", True)]
    study = Study(known, tmp_path)
    assert {trial["seed"] for trial in quick} == {TUNING_SEEDS[0]}
    assert not study.measured()
    assert not study.tuned("a", "small")
    assert len(study.trials()) == 8


def test_result_files_contain_all_measurements(known, tmp_path):
    study = Study(known, tmp_path)
    run(study)
    result = write_result(study, tmp_path)
    assert read_result(known, tmp_path) == json.loads(json.dumps(result))
    assert result["verdict"] == HOLDS
    assert describe(result) == [
        f"small: a: loss at least 0.1 below b: loss: {result['findings'][0]['mean']:.3g} "
        f"[{result['findings'][0]['low']:.3g}, {result['findings'][0]['high']:.3g}], holds",
        "verdict: holds",
    ]
    arm = result["arms"][0]
    assert (arm["arm"], arm["case"], list(arm["seeds"])) == ("a", "small", ["0", "1", "2", "3", "4"])
    assert arm["tuned"].keys() == {"0.001", "0.003", "0.009", "0.027"}
    assert arm["seeds"]["0"]["parameters"] == 10


def test_a_figure_shows_each_seed_and_the_interval(known, tmp_path):
    study = Study(known, tmp_path)
    run(study)
    left, right = figure(write_result(study, tmp_path)).axes
    low, high = left.lines
    assert len(low.get_xdata()) == len(high.get_xdata()) == 5
    assert max(low.get_xdata()) < min(high.get_xdata())
    assert right.get_title("left") == HOLDS


KILLED = """
import os, signal
from minitransformer.claims.running import processes

if __name__ == "__main__":
    with processes(1) as pool:
        pool.submit(os.getpid).result()
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_worker_processes_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, tmp_path / "killed.py"], env=variables, capture_output=True, timeout=60
    )  # returns when none holds its output any more
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sqrt-dx"], "unknown claim 'sqrt-dx'. Did you mean sqrt-dk?"),
        (["--all", "sqrt-dk"], "--all is passed with names of claims."),
        (["sqrt-dk", "--workers", "0"], "--workers must be at least 1"),
        (["sqrt-dk", "--first-seed", "-1"], "--first-seed must be from 0 to 4294967286, but is -1."),
        (["--quick"], "--quick is passed without a claim. Pass names, or --all."),
        (["sqrt-dk", "--first-seed", "995"], "a seed that chose their learning rates (1000 and 1001)"),
    ],
)
def test_invalid_claims_commands_are_explained(words, message, capsys, tmp_path):
    assert main(["claims", *words, "--dir", str(tmp_path)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_claims_are_listed_with_the_verdicts_in_a_folder(known, tmp_path, capsys):
    run(Study(known, tmp_path))
    write_result(Study(known, tmp_path), tmp_path)
    assert main(["claims", "--dir", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"known +Is a better\? +holds", listed)
    assert re.search(r"sqrt-dk +Do scores", listed)


def test_damaged_results_are_listed_as_damaged(known, tmp_path, capsys):
    (tmp_path / "known.json").write_text("{")
    assert main(["claims", "--dir", str(tmp_path)]) == 0
    assert re.search(r"known +Is a better\? +\(damaged\)", capsys.readouterr().out)
    with pytest.raises(
        UserError, match=r"Write it again, from known.jsonl, with: minitransformer claims known"
    ):
        read_result(known, tmp_path)
