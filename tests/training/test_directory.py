"""What is written in a run folder: plain files of this run, as long as the folder is its own."""

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from minitransformer.runs import evaluations
from minitransformer.runs.folder import RunError
from minitransformer.runs.run import is_finished
from minitransformer.training.checkpoint import CheckpointError, Checkpoints, step_of
from minitransformer.training.directory import HAS_DIR_FD, Directory, DirectoryError
from minitransformer.training.lock import FolderLostError, open_folder
from minitransformer.training.run_files import lock
from tests.tiny import TINY
from tests.training.test_trainer import translation, weights

TRAIN = ("train", "phrasebook", "--data", "pairs.tsv", *TINY)
posix = pytest.mark.skipif(os.name == "nt", reason="links and forks of POSIX")

CHANGES = {
    "write": lambda folder, name: folder.write(name, b"new"),
    "append": lambda folder, name: folder.append(name, b"new"),
    "delete": lambda folder, name: folder.delete(name),
    "rename": lambda folder, name: folder.rename(name, "other"),
    "rename to it": lambda folder, name: folder.rename("plain", name),
    "folder": lambda folder, name: folder.folder(name, create=True),
    "write_all": lambda folder, name: folder.write_all({"a": b"new", name: b"new"}, marks=("a",)),
}


@pytest.fixture(params=["by descriptor", "by path"])
def directory(request, tmp_path, monkeypatch):
    """A folder beside the folder of a stranger; on Windows there are no descriptors of folders."""
    if request.param == "by path":
        monkeypatch.setattr("minitransformer.training.directory.HAS_DIR_FD", False)
    elif os.name == "nt":
        pytest.skip("no descriptors of folders")
    for name in ("mine", "stranger"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plain").write_bytes(b"old")
    with Directory(tmp_path / "mine") as folder:
        yield folder


@pytest.mark.parametrize("has_dir_fd", [True, False])
def test_a_folder_may_be_named_from_the_current_one(tmp_path, monkeypatch, has_dir_fd):
    monkeypatch.setattr("minitransformer.training.directory.HAS_DIR_FD", has_dir_fd and HAS_DIR_FD)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    with Directory(Path("runs/mine")) as folder:
        folder.write_all({"a": b"new", "b": b"new"}, marks=("b",))
        with pytest.raises(TypeError):
            folder.write_all({"a": b"newer", "b": "no bytes"})
        folder.truncate("a", 1)
    assert sorted(os.listdir("runs/mine")) == ["a", "b"]
    assert Path("runs/mine/a").read_bytes() == b"n"


@posix
def test_a_file_with_another_name_is_not_shortened(directory, tmp_path):
    os.link(tmp_path / "stranger" / "plain", tmp_path / "mine" / "log")
    directory.truncate("log", 1)
    assert (tmp_path / "mine" / "log").read_bytes() == b"o"
    assert (tmp_path / "stranger" / "plain").read_bytes() == b"old"


def test_a_file_that_is_too_large_is_not_read(directory):
    with pytest.raises(OSError, match=r"[Tt]oo large"):
        directory.read("plain", limit=2)


@posix
@pytest.mark.parametrize("target", ["stranger", "stranger/plain", "stranger/nothing", "mine/link"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_changed_through_a_link(directory, tmp_path, change, target):
    (tmp_path / "mine" / "link").symlink_to(tmp_path / target)
    with pytest.raises(DirectoryError, match=r"mine/link is not .*but a link[\s\S]*\n.*--run-dir"):
        CHANGES[change](directory, "link")
    assert os.listdir(tmp_path / "stranger") == ["plain"]
    assert (tmp_path / "stranger" / "plain").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path / "mine")) == ["link", "plain"]


@posix
@pytest.mark.parametrize("change", ["write", "append", "delete", "rename"])
def test_a_file_with_another_name_elsewhere_keeps_its_bytes_there(directory, tmp_path, change):
    os.link(tmp_path / "stranger" / "plain", tmp_path / "mine" / "hard")
    CHANGES[change](directory, "hard")
    assert (tmp_path / "stranger" / "plain").read_bytes() == b"old"
    if change == "append":
        assert (tmp_path / "mine" / "hard").read_bytes() == b"oldnew"


@posix
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "rename to it"])
@pytest.mark.parametrize("how", ["moved", "replaced", "replaced by a link"])
def test_nothing_is_changed_where_another_folder_has_taken_the_place(directory, tmp_path, change, how):
    (tmp_path / "mine").rename(tmp_path / "moved")
    if how == "replaced":
        shutil.copytree(tmp_path / "stranger", tmp_path / "mine")
    elif how == "replaced by a link":
        (tmp_path / "mine").symlink_to("stranger")
    with pytest.raises(DirectoryError, match="mine was deleted, moved or replaced"):
        CHANGES[change](directory, "plain")
    for folder in tmp_path.iterdir():
        assert (folder / "plain").read_bytes() == b"old"
        assert os.listdir(folder) == ["plain"]


@posix
def test_a_run_folder_may_be_reached_by_links(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "runs").symlink_to("data")
    translation(tmp_path / "runs" / "mine", steps=1).train()
    (tmp_path / "yours").symlink_to("data/mine")
    again = translation(tmp_path / "yours", steps=2)
    assert again.resume()
    assert again.train()
    assert Checkpoints(tmp_path / "data" / "mine" / "checkpoints").names() == [
        "step-00000001",
        "step-00000002",
    ]


# --- One training in one folder ---


def test_a_second_trainer_in_another_thread_is_refused(tmp_path):
    first = translation(tmp_path, steps=2)
    second = translation(tmp_path, steps=2)
    errors = []

    def train():
        try:
            second.train()
        except RunError as error:
            errors.append(str(error))

    class Start:
        def on_step_end(self, trainer, record):
            if trainer.step == 1:
                thread = threading.Thread(target=train)
                thread.start()
                thread.join()

    first = translation(tmp_path, steps=2)
    first.callbacks = type(first.callbacks)([Start()])
    assert first.train()
    assert len(errors) == 1
    assert f"is in use by process {os.getpid()} on" in errors[0]
    assert second.step == 0


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("who", ["the trainer", "a new trainer"])
def test_a_forked_child_does_not_train_in_its_parents_folder(tmp_path, who):
    trainer = translation(tmp_path, steps=2)

    class Fork:
        def on_step_end(self, trainer, record):
            if trainer.step == 1:
                trainer.forked = os.fork()

    def train():
        trainer.callbacks = type(trainer.callbacks)([Fork()])
        trainer.train()

    if who == "the trainer":
        code = 0
        try:
            train()
        except FolderLostError as error:
            code = 7 if "is a fork of that one" in str(error) else 1
        if not trainer.forked:
            os._exit(code)
        assert code == 0
        pid = trainer.forked
    else:
        with lock(tmp_path):
            pid = os.fork()
            if not pid:
                try:
                    translation(tmp_path, steps=2).train()
                except RunError as error:
                    os._exit(7 if "in use by process" in str(error) else 1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
            trainer.train()
            return
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert Checkpoints(tmp_path / "checkpoints").index["last"] == "step-00000002"


@posix
def test_a_folder_whose_lock_was_deleted_belongs_to_the_next_training(tmp_path):
    def train():
        with lock(tmp_path):
            (tmp_path / ".lock").unlink()
            with open_folder(tmp_path) as folder:
                folder.write("log.jsonl", b"")

    with pytest.raises(FolderLostError, match=r"its \.lock was deleted or replaced"):
        train()
    assert not (tmp_path / "log.jsonl").exists()
    with lock(tmp_path):
        pass


# --- Names of checkpoints ---


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path):
    trainer = translation(tmp_path, steps=10**9, keep=2)
    weights_of = {}
    for step in (99_999_998, 99_999_999, 100_000_000, 100_000_001):
        trainer.train_step()
        trainer.step = step
        trainer.save()
        weights_of[step] = weights(trainer)
    names = Checkpoints(tmp_path / "checkpoints").names()
    assert [step_of(name) for name in names] == [
        99_999_998,
        100_000_000,
        100_000_001,
    ]  # the first is the best
    again = translation(tmp_path, steps=10**9)
    again.resume()
    assert again.step == 100_000_001
    assert weights(again) == weights_of[100_000_001]


def test_only_the_one_name_of_a_step_is_a_checkpoint(tmp_path):
    for name in (
        "step-00000001",
        "step-000000002",
        "step-2",
        "step-0000000\u0663",
        "step-00000003.bak",
        "step--1",
    ):
        (tmp_path / name).mkdir()
    assert Checkpoints(tmp_path).names() == ["step-00000001"]


# --- Checkpoints that are missing ---


@pytest.fixture
def four_steps(tmp_path):
    """A training whose best checkpoint is the second of four."""
    trainer = translation(tmp_path, steps=4, checkpoint_every=1, validate_every=1, keep=2)
    losses = iter([3.0, 1.0, 2.0, 2.0])
    trainer.task.validate = lambda model: {"loss": next(losses)}
    trainer.train()
    return trainer.checkpoints


def resumed(folder, **config):
    trainer = translation(folder, steps=4, **config)
    said = []
    trainer._warn = said.append
    trainer.resume()
    return trainer, said


def test_a_newest_checkpoint_that_is_missing_is_said(tmp_path, four_steps):
    shutil.rmtree(four_steps.path("last"))
    for which in ("last", "best", "average:2"):
        with pytest.raises(CheckpointError, match=r"newest checkpoint .*step-00000004, is missing"):
            four_steps.read_weights(which)
    assert four_steps.read_weights("step-00000003")
    trainer, said = resumed(tmp_path)
    assert trainer.step == 3
    assert "step-00000004, is missing: the run continues from step-00000003" in said[0]
    assert resumed(tmp_path)[1] == []  # it is said once
    assert four_steps.read_weights("last")[0].name == "step-00000003"


def test_a_best_checkpoint_that_is_missing_is_said_by_resume(tmp_path, four_steps):
    shutil.rmtree(four_steps.path("best"))
    trainer, said = resumed(tmp_path)
    assert trainer.step == 4
    assert "step-00000002, is missing: step-00000004 takes its place" in said[0]
    assert resumed(tmp_path)[1] == []


def test_a_run_whose_checkpoints_are_all_missing_does_not_start_anew(tmp_path, four_steps):
    for name in four_steps.names():
        shutil.rmtree(four_steps.folder / name)
    with pytest.raises(CheckpointError, match=r"all checkpoints of .* are missing; .* step-00000004"):
        resumed(tmp_path)


# --- Evaluations ---


@pytest.mark.slow
def test_an_unfinished_run_that_was_evaluated_is_not_finished(cli, here):
    assert is_finished(here / "mine")
    last = Checkpoints(here / "mine" / "checkpoints").path("last")
    assert cli("train", "phrasebook", "--run-dir", "mine", "--resume", "--steps", 6)[0] == 0
    assert is_finished(here / "mine")
    for path in (here / "mine" / "checkpoints").glob("step-*"):
        if path.name != last.name:
            shutil.rmtree(path)
    (here / "mine" / "checkpoints" / "index.json").write_text(
        json.dumps({"last": last.name, "best": last.name})
    )
    assert cli("evaluate", "mine")[0] == 0
    assert (here / "mine" / "metrics.json").is_file()
    assert not is_finished(here / "mine")


@pytest.mark.slow
def test_scores_of_an_earlier_checkpoint_do_not_make_a_run_finished(cli, here):
    for name in evaluations.FILES:
        if (here / "mine" / name).exists():
            shutil.copy(here / "mine" / name, here / name)
    command = ("train", "phrasebook", "--run-dir", "mine", "--resume", "--steps", 6)
    assert cli(*command, "--lr", "0.01", "--schedule", "constant", "--warmup-steps", 0)[0] == 0
    about = evaluations.read(here / "mine").about.checkpoint
    assert (about, is_finished(here / "mine")) == ("step-00000006", True)
    for name in evaluations.FILES:
        if (here / name).exists():
            shutil.copy(here / name, here / "mine" / name)
    assert not is_finished(here / "mine")


@pytest.mark.slow
def test_an_evaluation_is_not_written_to_another_run_that_has_taken_the_folder(cli, here):
    assert cli(*TRAIN, "--run-dir", "other", "--seed", 5)[0] == 0
    from minitransformer.cli import evaluate
    from minitransformer.runs.run import Run

    run = Run(Path("mine"))
    evaluation = evaluate.score(run, run.splits())
    shutil.rmtree("mine")
    shutil.copytree("other", "mine")
    before = (here / "mine" / "metrics.json").read_bytes()
    with pytest.raises(OSError, match="no longer contains that run"):
        evaluations.write(Path("mine"), Path("mine"), evaluation, run.record.id)
    assert (here / "mine" / "metrics.json").read_bytes() == before
