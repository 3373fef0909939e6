"""What is written in a run folder: by one training at a time, and so that nothing written is lost."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from minigrad import io
from minitransformer.files import read_json
from minitransformer.runs import evaluations
from minitransformer.runs.folder import RunError
from minitransformer.runs.run import is_finished
from minitransformer.training.checkpoint import CheckpointError, Checkpoints, step_of
from minitransformer.training.log import read_log, truncate_log
from minitransformer.training.storage import FolderLostError, lock, lock_evaluation, write_all
from tests.tiny import TINY
from tests.training.test_trainer import crash_after, translation, validate_to, weights

TRAIN = ("train", "phrasebook", "--data", "pairs.tsv", *TINY)
posix = pytest.mark.skipif(os.name == "nt", reason="links and folders of POSIX")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


# --- Power loss: what is renamed is on the disk, and so is its new name ---


@pytest.fixture
def operations(monkeypatch):
    """The file operations, in order: what is written to the disk, renamed or deleted."""
    found = []

    def note(name, path_of=lambda path: path):
        act = getattr(os, name)

        def noting(*args):
            found.append((name, io.LEFTOVER.sub(r"\g<name>~", Path(path_of(args[-1])).name)))
            return act(*args)

        monkeypatch.setattr(os, name, noting)

    note("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    note("replace")
    note("unlink")
    note("rmdir")
    return found


linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc names the file of a descriptor")


@linux
def test_atomic_writes_sync_before_and_after_renaming(tmp_path, operations):
    io.write_atomically(tmp_path / "a", b"new")
    assert operations == [("fsync", "a~"), ("replace", "a"), ("fsync", tmp_path.name)]


@linux
def test_checkpoint_is_synced_before_an_older_one_is_deleted(tmp_path, operations):
    trainer = translation(tmp_path, keep=1)
    trainer.train_step()
    trainer.save(best=True)
    trainer.train_step()
    operations.clear()
    trainer.save(best=True)
    files = ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"]
    assert operations[:7] == [
        *(("fsync", name) for name in files),
        ("fsync", "step-00000002~"),
        ("replace", "step-00000002"),
        ("fsync", "checkpoints"),
    ]
    assert ("rmdir", "step-00000001~") in operations[7:]


@linux
def test_a_group_of_files_is_marked_once_all_are_synced(tmp_path, operations):
    (tmp_path / "last").write_bytes(b"old")
    write_all(tmp_path, {"last": b"new", "a": b"new"}, marks=("last",))
    order = [operation for operation in operations if operation[1] in ("a", "last", tmp_path.name)]
    sync = ("fsync", tmp_path.name)
    assert order == [("unlink", "last"), sync, ("replace", "a"), sync, ("replace", "last"), sync]


def test_a_failed_group_write_keeps_the_old_files(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(TypeError):
        write_all(tmp_path, {"a": b"new", "b": "no bytes"}, marks=("a",))
    assert names_in(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


# --- One training in one folder ---


def test_a_second_trainer_in_another_thread_is_refused(tmp_path):
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


def test_locks_of_killed_processes_are_released(tmp_path):
    program = (
        "import os, pathlib; from minitransformer.training.storage import lock\n"
        f"with lock(pathlib.Path({str(tmp_path)!r})): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 9
    assert (tmp_path / ".owner.json").exists()
    (tmp_path / ".run.json.0a1b2c3d.minigrad").touch()
    with lock(tmp_path), lock(tmp_path):
        assert read_json(tmp_path / ".owner.json")["pid"] == os.getpid()
    assert names_in(tmp_path) == [".evaluation.lock", ".lock"]


@posix
@pytest.mark.parametrize("then", ["nothing", "another training"])
def test_training_stops_if_its_folder_is_deleted(tmp_path, then):
    run = tmp_path / "run"
    other = (
        "import time, pathlib; from minitransformer.training.storage import lock\n"
        f"with lock(pathlib.Path({str(run)!r})): print(1, flush=True); time.sleep(60)"
    )
    processes = []

    class Delete:
        def on_step_end(self, trainer, record):
            if trainer.step == 2:
                shutil.rmtree(run)
                if then == "another training":
                    process = subprocess.Popen([sys.executable, "-c", other], stdout=subprocess.PIPE)
                    processes.append(process)
                    process.stdout.readline()

    trainer = translation(run, steps=4, log_every=1)
    trainer.callbacks = type(trainer.callbacks)([Delete()])
    try:
        with pytest.raises(FolderLostError, match=r"was deleted, moved or replaced[\s\S]*\n.*--resume"):
            trainer.train()
        found = names_in(run) if processes else run.exists()
        assert found == ([".evaluation.lock", ".lock", ".owner.json"] if processes else False)
        if processes:
            with pytest.raises(RunError, match=f"in use by process {processes[0].pid}"):
                translation(run).train()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_concurrent_evaluations_are_serialized(tmp_path, monkeypatch):
    entered = []

    def evaluate():
        with lock_evaluation(tmp_path):
            entered.append("second")

    thread = threading.Thread(target=evaluate)
    with lock_evaluation(tmp_path):
        thread.start()
        thread.join(0.2)
        entered.append("first")
    thread.join()
    assert entered == ["first", "second"]


@posix
def test_run_folders_can_be_symlinks(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "runs").symlink_to("data")
    translation(tmp_path / "runs" / "mine", steps=1).train()
    (tmp_path / "yours").symlink_to("data/mine")
    again = translation(tmp_path / "yours", steps=2)
    assert again.resume()
    assert again.train()
    names = Checkpoints(tmp_path / "data" / "mine" / "checkpoints").names()
    assert names == ["step-00000001", "step-00000002"]


# --- The log ---


@pytest.mark.parametrize("step", [0, 1, 2, 3])
@pytest.mark.parametrize("torn", [b"", b'{"step": 3, "lo', b"\n\n[[[\n\xff", b'{"step": true}\n9\n'])
def test_a_log_is_truncated_to_whole_lines(tmp_path, step, torn):
    path = tmp_path / "log.jsonl"
    entries = '{"step": 1, "loss": 2.0, "note": "é"}', '{"step": 2, "loss": 1.0}', '{"step": 2, "x": 1.0}'
    lines = [f"{entry}\n".encode() for entry in entries]
    path.write_bytes(b"".join(lines) + torn)
    assert [entry["step"] for entry in read_log(path)] == [1, 2, 2]
    truncate_log(path, step)
    assert path.read_bytes() == b"".join(lines[: (0, 1, 3, 3)[step]])


def test_a_log_line_without_a_line_feed_is_completed(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}')
    truncate_log(path, 2)
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'


def test_integers_beyond_64_bits_are_dropped_from_logs(tmp_path):
    (tmp_path / "log.jsonl").write_text(f'{{"step": 1, "a": {10**30}, "loss": 1.0}}\n')
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1, "loss": 1.0}]


# --- Names of checkpoints ---


def test_only_canonical_names_are_checkpoints(tmp_path):
    for name in ("00000001", "000000002", "2", "0000000\u0663", "00000003.bak", "-1"):
        (tmp_path / f"step-{name}").mkdir()
    assert Checkpoints(tmp_path).names() == ["step-00000001"]


def test_checkpoints_are_sorted_by_step(tmp_path):
    trainer = translation(tmp_path, steps=10**9, keep=2)
    weights_of = {}
    for step in (99_999_998, 99_999_999, 100_000_000, 100_000_001):
        trainer.train_step()
        trainer.step = step
        trainer.save()
        weights_of[step] = weights(trainer)
    names = Checkpoints(tmp_path / "checkpoints").names()
    steps = [99_999_998, 100_000_000, 100_000_001]  # the first is the best
    assert [step_of(name) for name in names] == steps
    again = translation(tmp_path, steps=10**9)
    again.resume()
    assert again.step == 100_000_001
    assert weights(again) == weights_of[100_000_001]


# --- Checkpoints that are missing ---


@pytest.fixture
def four_steps(tmp_path):
    """A training whose best checkpoint is the second of four."""
    trainer = translation(tmp_path, steps=4, checkpoint_every=1, validate_every=1, keep=2)
    validate_to(trainer, 3.0, 1.0, 2.0, 2.0)
    trainer.train()
    return trainer.checkpoints


def resumed(folder, **config):
    trainer = translation(folder, steps=4, **config)
    said = []
    trainer._warn = said.append
    trainer.resume()
    return trainer, said


def test_resume_replaces_a_missing_best_checkpoint(tmp_path, four_steps):
    shutil.rmtree(four_steps.path("best"))
    for read in (lambda: four_steps.index, lambda: four_steps.read_weights("best")):
        with pytest.raises(CheckpointError, match=r"2, is missing\.\n.*--checkpoint step-00000004"):
            read()
    trainer, said = resumed(tmp_path)
    assert trainer.step == 4
    assert "step-00000002, is missing: step-00000004 takes its place" in said[0]
    assert resumed(tmp_path)[1] == []
    assert four_steps.read_weights("best")[0].name == "step-00000004"
    assert trainer.best.value == float("inf")  # the next validation is better
    sums = (four_steps.path("last") / "SHA256SUMS").read_text().splitlines()
    assert len({line.split()[1] for line in sums}) == len(sums)


@pytest.mark.parametrize("crash_at", range(9))
def test_a_crash_while_replacing_the_best_loses_nothing(tmp_path, four_steps, crash_at):
    shutil.rmtree(four_steps.path("best"))
    trainer = translation(tmp_path, steps=4)
    crash_after(crash_at, lambda: four_steps.repair(trainer.model, trainer.optimizer))
    trainer, _ = resumed(tmp_path)
    assert trainer.step == 4
    assert four_steps.read_weights("best")[0].name == "step-00000004"


# --- Evaluations ---


@pytest.mark.slow
def test_an_evaluated_run_may_still_be_unfinished(cli, here):
    assert is_finished(here / "mine")
    last = Checkpoints(here / "mine" / "checkpoints").path("last")
    assert cli("train", "phrasebook", "--run-dir", "mine", "--resume", "--steps", 6)[0] == 0
    assert is_finished(here / "mine")
    for path in (here / "mine" / "checkpoints").glob("step-*"):
        if path.name != last.name:
            shutil.rmtree(path)
    assert cli("evaluate", "mine")[0] == 0
    assert (here / "mine" / "metrics.json").is_file()
    assert not is_finished(here / "mine")


@pytest.mark.slow
def test_scores_of_an_earlier_checkpoint_leave_a_run_unfinished(cli, here):
    saved = [(here / "mine" / name, here / name) for name in evaluations.FILES]
    saved = [(path, copy) for path, copy in saved if path.exists()]
    for path, copy in saved:
        shutil.copy(path, copy)
    command = ("train", "phrasebook", "--run-dir", "mine", "--resume", "--steps", 6)
    assert cli(*command, "--lr", "0.01", "--schedule", "constant", "--warmup-steps", 0)[0] == 0
    about = evaluations.read(here / "mine").about.checkpoint
    assert (about, is_finished(here / "mine")) == ("step-00000006", True)
    for path, copy in saved:
        shutil.copy(copy, path)
    assert not is_finished(here / "mine")


@pytest.mark.slow
def test_evaluations_are_not_written_to_a_replaced_run(cli, here):
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
