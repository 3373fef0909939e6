"""Run folders: nobody else's files are touched, one training at a time, and the record says what happened."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import tomli_w

from minigrad.kernels import use
from minitransformer.errors import UserError
from minitransformer.files import check_name, read_json, sha256, to_json
from minitransformer.runs import evaluations
from minitransformer.runs.folder import RunError, read_config, read_record
from minitransformer.runs.run import Run
from minitransformer.training.checkpoint import Checkpoints
from tests.tiny import PAIRS, TINY, TINY_GPT

TRAIN = ("train", "phrasebook", "--data", "pairs.tsv", *TINY)
posix = pytest.mark.skipif(os.name == "nt", reason="signals and links of POSIX")


def contents(folder):
    files = (path for path in sorted(Path(folder).rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if "lock" not in path.name}


def final_weights(folder):
    checkpoints = Checkpoints(Path(folder) / "checkpoints")
    return (checkpoints.path("last") / "model.safetensors").read_bytes()


# --- Where a run folder is ---

NOT_NAMES = ["", "..", " ", "../../escaped", "/escaped", "a\\b", "C:escaped", "a\0b"]


@pytest.mark.parametrize("name", NOT_NAMES, ids=lambda name: ascii(name[:12]))
def test_recipe_names_that_are_paths_are_rejected(cli, here, name):
    (here / "mine.toml").write_text(tomli_w.dumps({"name": name, "task": "translation"}), encoding="utf-8")
    before = contents(here)
    for verb in ("train", "card"):
        code, out, err = cli(verb, "mine.toml", "--data", "pairs.tsv")
        assert (code, out) == (2, "")
        assert re.fullmatch(r"error: mine.toml: name .*\n.*\n", err)
    assert contents(here) == before
    with pytest.raises(UserError):
        check_name(name, "name")


def test_run_record_names_that_are_paths_are_rejected(cli, here):
    path = here / "mine" / "run.json"
    record = read_json(path)
    del record["sha256"]
    for name in ("../../escaped", "/escaped", ".."):
        record["recipe"] = name
        path.write_text(json.dumps({**record, "sha256": sha256(to_json(record).encode())}))
        before = contents(here)
        for command in ("train", "evaluate", "show"):
            code, out, err = cli(command, "mine")
            assert (code, out) == (2, "")
            assert "mine/run.json: name is" in err
        assert contents(here) == before


# --- What a training may delete ---


def test_an_unrelated_folder_with_the_same_names_is_not_a_run(cli, here):
    stranger = here / "stranger"
    (stranger / "checkpoints").mkdir(parents=True)
    (stranger / "checkpoints" / "model.pt").write_text("precious")
    (stranger / "config.toml").write_text("precious = true")
    for record in ({}, [], {"recipe": "mine", "versions": {}}, "text"):
        (stranger / "run.json").write_text(json.dumps(record))
        before = contents(stranger)
        for flag in ("--overwrite", "--resume"):
            code, _, err = cli(*TRAIN, "--run-dir", "stranger", flag)
            assert code == 2
            assert "not a run folder; nothing was changed" in err
        assert contents(stranger) == before
        assert not (stranger / ".lock").exists()


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '{"a": 1e999}'])
def test_folders_with_an_unreadable_record_are_left_unchanged(cli, here, content):
    (here / "mine" / "run.json").write_text(content)
    before = contents("mine")
    for flag in ("--overwrite", "--resume"):
        code, _, err = cli(*TRAIN, "--run-dir", "mine", flag)
        assert code == 2
        assert "mine/run.json is not valid JSON" in err
        assert "Restore the file, or choose another folder" in err
    assert contents("mine") == before


def test_modified_run_records_are_rejected(cli, here):
    path = here / "mine" / "run.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    code, out, err = cli("evaluate", "mine")
    assert (code, out) == (2, "")
    assert "mine/run.json is damaged or was changed: it does not match its checksum" in err


def test_overwrite_deletes_only_files_of_the_run(cli, here):
    names = [
        "notes.txt", ".config.toml.original1", ".run.json.20240101", "checkpoints/model.pt",
        "checkpoints/step-00000004/mine.txt", "checkpoints/step-000000004/model.safetensors",
        "evaluations/of-mine/metrics.json", "tensorboard/events.out.tfevents.1700000000.of-mine",
    ]  # fmt: skip
    for flags in (("--resume", "--steps", 7), ("--overwrite",)):
        for name in names:
            (here / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
            (here / "mine" / name).write_text(name)
        assert cli(*TRAIN, "--run-dir", "mine", *flags)[0] == 0
        found = [path.read_bytes() for path in (here / "mine").rglob("*") if path.is_file()]
        assert [name for name in names if name.encode() not in found] == []
    assert cli("translate", "mine", "I love you")[0] == 0


@posix
@pytest.mark.parametrize("name", ["checkpoints", "config.toml", "log.jsonl", ".lock", "run.json"])
@pytest.mark.parametrize("flag", ["--overwrite", "--resume"])
def test_symlinks_in_a_run_folder_are_not_followed(cli, here, name, flag):
    target = here / "elsewhere"
    path = here / "mine" / name
    path.rename(target) if path.exists() else target.write_text("")
    path.symlink_to(target)
    before = contents(target) if target.is_dir() else target.read_bytes()
    code, _, err = cli(*TRAIN, "--run-dir", "mine", flag)
    assert code == 2
    assert f"mine/{name} is a link" in err
    assert (contents(target) if target.is_dir() else target.read_bytes()) == before


# --- A run that was killed ---


def test_the_folder_of_a_run_killed_at_startup_can_be_reused(cli, here):
    for flags in ((), ("--resume",), ("--overwrite",)):
        shutil.rmtree(here / "new", ignore_errors=True)
        (here / "new").mkdir()
        for name in (".lock", ".owner.json", ".run.json.0a1b2c3d.minigrad", "..owner.json.0a1b2c3d.minigrad"):
            (here / "new" / name).touch()
        assert cli(*TRAIN, "--run-dir", "new", *flags)[0] == 0
        assert sorted(path.name for path in (here / "new").glob(".*")) == [".evaluation.lock", ".lock"]


def test_overwrite_keeps_the_old_run_if_the_new_one_fails(cli, here):
    (here / "long.tsv").write_text("a " * 99 + "\t" + "b " * 99 + "\n")
    (here / "letter.txt").write_text("R" * 200)
    before = contents("mine"), contents("play")
    code, _, err = cli(*TRAIN, "--run-dir", "mine", "--overwrite", "--test-data", "long.tsv")
    assert (code, "no pairs of the test split can be used: too long" in err) == (2, True)
    words = ("--tokenizer", "word", "--test-data", "letter.txt", *TINY_GPT)
    play = ("train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "play", "--overwrite", *words)
    code, _, err = cli(*play)
    assert (code, "a text of 1 token cannot be scored" in err) == (2, True)
    assert (contents("mine"), contents("play")) == before


def test_overwrite_deletes_nothing_without_full_permission(cli, here, monkeypatch):
    before = contents("mine")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "checkpoints")
    code, _, err = cli(*TRAIN, "--run-dir", "mine", "--overwrite")
    assert code == 2
    assert "cannot write to mine/checkpoints; nothing was changed" in err
    assert contents("mine") == before


@pytest.mark.parametrize("flag", ["--resume", "--overwrite"])
def test_a_run_killed_during_overwrite_counts_as_the_new_run(cli, here, monkeypatch, flag):
    """Between the new run.json and the deletion of the old checkpoints."""

    def killed(self):
        raise KeyboardInterrupt

    command = (*TRAIN, "--run-dir", "mine", "--seed", 5)
    monkeypatch.setattr(Checkpoints, "clear", killed)
    assert cli(*command, "--overwrite")[0] == 1
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert cli("translate", "mine", "I love you")[0] == 2
    if flag == "--resume":
        command = (*command[:2], *command[4:])  # where the data is, is remembered
    assert cli(*command, flag)[0] == 0
    assert read_json(here / "mine" / "run.json")["seed"] == 5
    assert cli(*TRAIN, "--run-dir", "other", "--seed", 5)[0] == 0
    assert final_weights("mine") == final_weights("other")


def test_config_is_readable_with_an_outdated_record(cli, here):
    before = read_record(here / "mine")
    assert cli(*TRAIN, "--run-dir", "mine", "--resume", "--steps", 6)[0] == 0
    assert read_config(here / "mine", before).training.steps == 6
    with (here / "mine" / "config.toml").open("a") as file:
        file.write("\n")
    with pytest.raises(RunError, match="is damaged or was changed"):
        read_config(here / "mine", before)


@pytest.mark.parametrize("lost", ["checkpoints", "all but the folder"])
def test_resume_without_checkpoints_does_not_start_over(cli, here, lost):
    shutil.rmtree(here / "mine" / "checkpoints")
    if lost != "checkpoints":
        (here / "mine" / "checkpoints").mkdir()
    before = (here / "mine" / "metrics.json").read_bytes()
    code, _, err = cli("train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", "--resume")
    assert (code, len(err.splitlines())) == (2, 2)
    assert "mine has metrics.json, the scores of a trained model, but no checkpoint" in err
    assert (here / "mine" / "metrics.json").read_bytes() == before


def test_training_removes_leftover_temporary_files(cli, here):
    checkpoints = here / "mine" / "checkpoints"
    for name in (".step-00000008.0123abcd.minigrad", ".unusable-step-00000002-0.0123abcd.minigrad"):
        shutil.copytree(checkpoints / "step-00000004", checkpoints / name)
    for name in (".metrics.json", ".config.toml"):
        (here / "mine" / f"{name}.0123abcd.minigrad").touch()
    assert cli("train", "phrasebook", "--run-dir", "mine", "--resume", "--steps", 5)[0] == 0
    assert [path for path in (here / "mine").rglob(".*") if "lock" not in path.name] == []


# --- The record ---


def test_training_data_is_recorded_and_differences_reported(cli, here):
    record = read_record(here / "mine")
    assert {"kernels", "blas", "threads", "device", "ranks"} <= record.machine.keys()
    if record.machine["kernels"] == "numpy":
        pytest.skip("without numba there are no other kernels")
    with use("numpy"):
        code, _, err = cli("train", "mine", "--resume", "--steps", 5)
    assert code == 0, err
    assert "warning: mine was trained with kernels jit (now numpy): the weights will differ" in err
    assert "kernels jit -> numpy from step 4" in err
    again = read_record(here / "mine")
    assert again.history[-1]["environment"] == {"kernels": ["jit", "numpy"]}
    assert (again.machine["kernels"], again.environment["kernels"]) == ("jit", "numpy")
    assert "| from step 4 | steps 4 -> 5, kernels jit -> numpy |" in (here / "mine/README.md").read_text()


def test_settings_changed_on_resume_are_reported_and_recorded(cli, here):
    run = ("train", "phrasebook", "--run-dir", "mine", "--resume")
    code, _, err = cli(*run, "--steps", 6, "--lr", 0.02)
    assert code == 0
    assert "lr 0.006 -> 0.02 from step 4" in err
    assert "steps 4 -> 6 from step 4" in err
    first, second = read_record(here / "mine").history
    assert (first["step"], first["changes"]) == (0, {})
    assert (second["step"], second["changes"]) == (4, {"steps": [4, 6], "lr": [0.006, 0.02]})
    assert "lr = 0.02" in (here / "mine" / "config.toml").read_text()
    before = contents("mine")
    assert cli(*run)[0] == 0  # nothing left to train, and nothing changed
    assert contents("mine") == before


def test_finished_run_does_not_record_unused_settings(cli, here):
    before = contents("mine")
    code, _, err = cli("train", "phrasebook", "--run-dir", "mine", "--resume", "--lr", 0.1)
    assert code == 2
    assert "mine is finished, at step 4 of 4: other settings would change nothing" in err
    assert contents("mine") == before


def test_settings_changes_without_a_saved_step_are_undone(cli, here):
    config = (here / "mine" / "config.toml").read_bytes()
    run = ("train", "phrasebook", "--run-dir", "mine", "--resume")
    assert cli(*run, "--steps", 6, "--lr", 0.02)[0] == 0
    shutil.rmtree(here / "mine" / "checkpoints" / "step-00000006")
    (here / "mine" / "config.toml").write_bytes(config)
    assert cli(*run, "--steps", 5)[0] == 0
    changes = [entry["changes"] for entry in read_record(here / "mine").history]
    assert changes == [{}, {"steps": [4, 5]}]


def test_a_run_remembers_the_path_of_its_data(cli, here, monkeypatch):
    (here / "inner").mkdir()
    monkeypatch.chdir(here / "inner")
    data = read_record(here / "mine").data["data"]
    if not Path(data).exists():
        pytest.fail(f"the data of the fixture is gone: {data}")
    assert cli("evaluate", here / "mine", "--json")[0] == 0
    assert cli("train", "phrasebook", "--run-dir", here / "mine", "--resume", "--steps", 5)[0] == 0


def test_moved_data_is_asked_for(cli, here):
    (here / "pairs.tsv").rename(here / "moved.tsv")
    assert cli("train", "phrasebook", "--data", "moved.tsv", "--run-dir", "new", *TINY)[0] == 0
    (here / "moved.tsv").rename(here / "pairs.tsv")
    run = ("train", "phrasebook", "--run-dir", "new", "--resume", "--steps", 5)
    for command in (("evaluate", "new"), run):
        code, _, err = cli(*command)
        assert code == 2
        assert f"was in {here / 'moved.tsv'}, which does not exist.\nPass --data PATH" in err
        assert cli(*command, "--data", "pairs.tsv")[0] == 0
    assert cli("evaluate", "new")[0] == 0  # resumed with its new place, which is remembered


# --- Splits ---


def test_splits_can_be_read_from_separate_files(cli, here):
    for name, pairs in (("valid.tsv", PAIRS[:6]), ("test.tsv", PAIRS[6:10])):
        (here / name).write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    (here / "twice.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in (*PAIRS, *PAIRS[:3])), encoding="utf-8")
    files = ("--validation-data", "valid.tsv", "--test-data", "test.tsv", "--run-dir", "new")
    code, _, err = cli("train", "phrasebook", "--data", "twice.tsv", *files, *TINY)
    assert code == 0
    assert "pairs: 50 train, 6 validation, 4 test; dropped: 3 duplicates, 10 also held out" in err
    scores = json.loads(cli("evaluate", "new", "--json")[1])
    assert (scores["n"], scores["split"]) == (4, "test")


def test_evaluate_accepts_any_data_file(cli, here):
    metrics = (here / "mine" / "metrics.json").read_bytes()
    lines = (here / "pairs.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (here / "other.tsv").write_text("".join(lines[:7]) + "A new cat sat.\tUn chat.\n", encoding="utf-8")
    code, out, err = cli("evaluate", "mine", "--data", "other.tsv", "--json")
    assert code == 0
    assert (json.loads(out)["n"], json.loads(out)["split"]) == (8, "other.tsv")
    assert "of 8 pairs are in the training data" in err
    assert (here / "mine" / "metrics.json").read_bytes() == metrics  # the metrics of the run's own test split


def test_targets_that_do_not_round_trip_are_reported(cli, here):
    code, _, err = cli(*TRAIN, "--run-dir", "new", "--vocab-size", 100)
    assert code == 0
    assert re.search(r"warning: \d+ of 60 targets do not round-trip .*--tokenizer bpe", err)
    code, _, err = cli(*TRAIN, "--run-dir", "bytes", "--tokenizer", "bpe", "--max-length", 64)
    assert code == 0
    assert "do not round-trip" not in err


# --- What a run says of itself ---


def cells(shown):
    """What is read in a table."""
    return re.findall(r"<td[^>]*>([^<]*)</td>", shown)


def test_repr_of_a_run_and_its_scores_is_informative(here, cli):
    assert cli("evaluate", "mine")[0] == 0
    run = Run(here / "mine")
    assert re.fullmatch(r"<Run .*mine: .*; Transformer, [\d,]+ parameters; step-\d+ of \d+ steps>", repr(run))
    words = " ".join(cells(run._repr_html_()))
    metrics = json.loads((here / "mine" / "metrics.json").read_text(encoding="utf-8"))
    low, high = (f"{bound:.4g}" for bound in metrics["intervals"]["token_accuracy"])
    assert f"token_accuracy {metrics['token_accuracy']:.4g} [{low}, {high}]" in words
    assert "data:image/png" in run._repr_html_()
    evaluation = evaluations.read(here / "mine")
    assert repr(evaluation).startswith("<Evaluation of the test split, step-")
    assert f"token_accuracy {metrics['token_accuracy']:.4g}" in repr(evaluation)
    assert "token_accuracy" in cells(evaluation._repr_html_())
    (here / "mine" / "metrics.json").unlink()
    (here / "mine" / "curves.png").unlink()
    assert "token_accuracy" not in cells(run._repr_html_())


def test_a_missing_monitored_score_leaves_the_folder_unchanged(cli, place):
    files = lambda: {path: path.read_bytes() for path in sorted(Path("mine").rglob("*")) if path.is_file()}
    before = files()
    again = ("--overwrite", "--data", "pairs.tsv", *TINY)
    for flags in (again, ("--resume", "--steps", "99")):
        code, _, err = cli("train", "phrasebook", "--run-dir", "mine", *flags, "--monitor", "blue")
        assert (code, "no score 'blue'" in err) == (2, True)
        assert files() == before
    code, _, err = cli("train", "phrasebook", "--run-dir", "new", *again[1:], "--monitor", "blue")
    assert code == 2
    assert not Path("new").exists()


def test_reader_retries_if_checkpoints_are_replaced(here):
    checkpoints = Checkpoints(Path("mine/checkpoints"))
    folder = checkpoints.path("last")
    reads = []
    later = folder.with_name("step-00000099")

    def read():
        reads.append(checkpoints.path("last").name)
        if len(reads) == 1:  # a training replaces it before its weights are read
            os.replace(folder, later)
        return (folder if len(reads) == 1 else later).joinpath("model.safetensors").read_bytes()

    assert checkpoints.retry_read(read) == (later / "model.safetensors").read_bytes()
    assert reads == [folder.name, later.name]
    with pytest.raises(OSError, match="nothing"):
        checkpoints.retry_read(lambda: reads.append("") or Path("nothing").read_bytes())
    assert len(reads) == 3  # what does not change is not read again
