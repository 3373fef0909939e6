"""Data-parallel training, by processes that `mpiexec` really starts: they train what one process trains.

This file is also what the ranks run: `mpiexec -n 2 python tests/slow/training/test_ranks.py begin FOLDER`.
"""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np
import pytest

import minigrad as mg
from minitransformer.cli import main
from minitransformer.runs.run import Run
from minitransformer.training.checkpoint import Checkpoints
from minitransformer.training.log import read_log
from minitransformer.training.ranks import RanksError, join
from minitransformer.training.trainer import Trainer
from tests.tiny import TEXT, TINY, TINY_GPT
from tests.training.test_trainer import language, translation

MPIEXEC = which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
needs_mpi = pytest.mark.skipif(
    not (MPIEXEC and find_spec("mpi4py")), reason="no mpiexec or no mpi4py: pip install '.[distributed]'"
)
STEPS = 50
TASKS = {
    "seven pairs": (translation, {"max_tokens": 1000}),  # 4 + 3, or 2 + 2 + 2 + 1 rows
    "few pairs": (translation, {"max_tokens": 24, "steps": 7}),  # sometimes fewer than four
    "blocks": (language, {}),
    "blocks in parts": (language, {"micro_batches": 2, "steps": 7}),
    "frozen": (language, {"freeze": "embedding.*,positions.*", "steps": 7}),
    "adapters": (language, {"lora_rank": 2, "lora_alpha": 256.0, "steps": 7}),
}


# --- What ranks run ---


def begin(folder):
    """Each task: a step's gradients, clipped, then more steps; all with dropout."""
    for name, (task, options) in TASKS.items():
        options = {"steps": STEPS, "clip_norm": 0.5, "lr": 1e-2} | options
        trainer = task(Path(folder) / name, ranks=join(), **options)
        first = trainer.train_step()
        trained = {n: p for n, p in trainer.model.named_parameters() if p.requires_grad}
        gradients = {n: p.grad.numpy().copy() for n, p in trained.items()}
        trainer.train()
        if trainer.ranks.rank == 0:
            mg.save_file(gradients, trainer.folder / "gradients.safetensors")
            (trainer.folder / "first.json").write_text(json.dumps(first))
    full_disk(Path(folder))


def go_on(folder, steps):
    trainer = translation(Path(folder), steps=int(steps), ranks=join())
    trainer.resume()
    trainer.train()


def die(folder, how):
    """Rank 1 does not come to the end of step 5."""

    class Dying(Trainer):
        def train_step(self):
            if self.step == 4 and self.ranks.rank == 1:
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("a fault on one machine")
            return super().train_step()

    import minitransformer.cli.train as train

    train.Trainer = Dying
    arguments = ["--data", "pairs.tsv", "--run-dir", folder, *TINY, "--checkpoint-every", "2"]
    sys.exit(main(["train", "phrasebook", *arguments, "--steps", "9"]))


def overwrite(folder):
    """Rank 0 deletes the former run slowly."""
    from minitransformer.cli import train

    begin = train.begin
    train.begin = lambda *arguments: (time.sleep(1), begin(*arguments))
    arguments = ["--data", "pairs.tsv", "--run-dir", folder, *TINY, "--overwrite"]
    sys.exit(main(["train", "phrasebook", *arguments]))


def threads():
    """How many threads the BLAS of each rank has."""
    from threadpoolctl import threadpool_info

    ranks = join()
    mine = max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
    every = ranks.comm.allgather(mine)
    if ranks.rank == 0:
        print(*every)


def full_disk(folder):
    """Rank 0 cannot save the best checkpoint, of step 2; each rank says what it takes for the best."""
    trainer = translation(folder / "full", steps=4, validate_every=1, checkpoint_every=4, ranks=join())
    losses = iter([4.0, 1.0, 2.0, 5.0])
    save = trainer.checkpoints.save

    def refuse(step, *others):
        if step == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(step, *others)

    trainer.checkpoints.save, trainer.task.validate = refuse, lambda model: {"loss": next(losses)}
    trainer.train()
    (folder / f"full-{trainer.ranks.rank}.json").write_text(json.dumps(trainer.best.state_dict()))


DIFFERENCES = {  # what rank 1 is given, and what both ranks say
    "steps": ({"steps": 9}, "steps is 7 on rank 0, 9 on rank 1"),
    "label_smoothing": ({"label_smoothing": 0.2}, "label_smoothing is 0.1 on rank 0, 0.2 on rank 1"),
    "micro_batches": ({"micro_batches": 2}, "micro_batches is 1 on rank 0, 2 on rank 1"),
    "validate_every": ({"validate_every": 3}, "validate_every is"),
    "seed": ({"seed": 1}, "seed is 0 on rank 0, 1 on rank 1"),
    "dropout": ({"dropout": 0.3}, "the config of the model is"),
    "batches": ({"max_tokens": 1000}, "the checksum of the first batch is"),
}


def differ(folder):
    """Rank 1 differs in one thing at a time; each rank says what it is told, and what differs on no rank."""
    ranks = join()
    said = {}
    for name, (options, _) in {**DIFFERENCES, "nothing": ({}, "")}.items():
        trainer = translation(Path(folder) / name, ranks=ranks, **(options if ranks.rank else {}))
        try:
            trainer.train()
        except RanksError as error:
            said[name] = str(error)
        ranks.barrier()
    (Path(folder) / f"said-{ranks.rank}.json").write_text(json.dumps(said))


def whether_mpi(folder):
    go_on(folder, 2)
    print("mpi4py" in sys.modules)


# --- How they are started ---


def environment(**changes):
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"} | changes


def run(command, **changes):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(**changes))
    return done.returncode, done.stdout, done.stderr


def on(ranks, *arguments):
    return run([MPIEXEC, "-n", str(ranks), sys.executable, __file__, *map(str, arguments)])


def command(*arguments):
    return [sys.executable, "-m", "minitransformer", *map(str, arguments)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with data, to run commands in."""
    from tests.tiny import PAIRS  # not where ranks begin, which need none

    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- The same run ---


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    begin(folder)
    return folder


@pytest.fixture(scope="module", params=[2, 4], ids="{} ranks".format)
def together(request, tmp_path_factory):
    if not (MPIEXEC and find_spec("mpi4py")):
        pytest.skip("no mpiexec or no mpi4py: pip install '.[distributed]'")
    folder = tmp_path_factory.mktemp("together")
    code, _, err = on(request.param, "begin", folder)
    assert code == 0, err
    return folder


@pytest.mark.parametrize("name", TASKS)
def test_distributed_gradients_match_one_process(name, alone, together):
    expected, found = (mg.load_file(folder / name / "gradients.safetensors") for folder in (alone, together))
    assert expected.keys() == found.keys()
    for key in expected:
        np.testing.assert_allclose(found[key].numpy(), expected[key].numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", TASKS)
def test_distributed_losses_match_one_process(name, alone, together):
    first = [json.loads((folder / name / "first.json").read_text()) for folder in (alone, together)]
    for key in ("loss", "nll_loss", "grad_norm", "lr"):
        assert first[1][key] == pytest.approx(first[0][key], rel=1e-5)
    assert first[0]["grad_norm"] > 0.5  # so that it was clipped
    logs = [read_log(folder / name / "log.jsonl") for folder in (alone, together)]
    for key in ("loss", "val_loss"):
        expected, found = ([record[key] for record in log if key in record] for log in logs)
        assert len(expected) == (TASKS[name][1].get("steps", STEPS) - 1 if key == "loss" else 1)
        assert expected[-1] < first[0]["loss"]  # something was learned
        assert found == pytest.approx(expected, rel=0.01)


def test_runs_can_be_resumed_with_a_different_number_of_ranks(tmp_path):
    if not (MPIEXEC and find_spec("mpi4py")):
        pytest.skip("no mpiexec or no mpi4py: pip install '.[distributed]'")
    unbroken = translation(tmp_path / "unbroken", steps=12)
    unbroken.train()
    for ranks, steps in ((2, 4), (1, 8), (4, 12)):
        code, _, err = on(ranks, "go_on", tmp_path / "broken", steps)
        assert code == 0, err
    records = [
        [record for record in read_log(tmp_path / name / "log.jsonl") if "loss" in record]
        for name in ("unbroken", "broken")
    ]
    assert [record["step"] for record in records[1]] == list(range(1, 13))
    for mine, other in zip(*records, strict=True):
        assert other["lr"] == mine["lr"]
        assert other["loss"] == pytest.approx(mine["loss"], rel=1e-4)
    last = [tmp_path / name / "checkpoints" / "step-00000012" for name in ("unbroken", "broken")]
    states = [json.loads((path / "state.json").read_text()) for path in last]
    assert states[0]["step"] == states[1]["step"]
    logits = []  # not the weights: keys' biases have no gradient but rounding, which Adam makes steps of
    for path in last:
        unbroken.model.load_state_dict(mg.load_file(path / "model.safetensors"))
        batch = next(iter(unbroken.task.batches(unbroken.task.train)))
        logits.append(unbroken.model.eval()(batch["source"], batch["target_in"]).numpy())
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-3, atol=1e-4)


@needs_mpi
def test_ranks_wait_until_the_overwritten_run_is_deleted(here):
    assert main(["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", *TINY]) == 0
    code, _, err = on(3, "overwrite", here / "mine")
    assert code == 0, err
    assert Checkpoints(here / "mine/checkpoints").names()[-1] == "step-00000004"


@needs_mpi
def test_ranks_share_the_cores_without_oversubscription():
    clean = {key: value for key, value in environment().items() if not key.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [MPIEXEC, "-n", "2", sys.executable, __file__, "threads"],
        capture_output=True, text=True, timeout=120, env=clean,
    )  # fmt: skip
    numbers = [int(word) for word in done.stdout.split()]
    assert len(numbers) == 2, done.stderr
    assert sum(numbers) <= max(2, os.cpu_count())


# --- What goes wrong ---


@needs_mpi
@pytest.mark.parametrize("how", ["killed", "raised"])
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_dead_rank_ends_the_job_and_keeps_the_checkpoint(how, here):
    code, _, err = on(2, "die", here / "mine", how)
    if how == "raised":
        assert code == 1
        assert "rank 1: Traceback" in err
        assert "RuntimeError: a fault on one machine" in err
    else:
        assert code != 0
        assert "9" in err  # mpiexec's message names the signal
    assert Checkpoints(here / "mine/checkpoints").names()[-1] == "step-00000004"
    saved = Run(here / "mine", "last")
    assert all(np.isfinite(p.numpy()).all() for p in saved.model.parameters())


@needs_mpi
def test_a_failed_save_is_the_best_on_no_rank(together):
    states = [json.loads(path.read_text()) for path in sorted(together.glob("full-*.json"))]
    assert len(states) > 1
    assert all(state == {"monitor": "loss", "value": 2.0, "waited": 1} for state in states)


@needs_mpi
def test_a_failed_run_of_a_sweep_ends_the_waiting_processes(here):
    arguments = ["sweep", "phrasebook", "--data", "pairs.tsv", *TINY, "--run-dir", "runs"]
    broken = {"MPLBACKEND": "nothing"}  # a backend that does not exist: a traceback, after the training
    code, _, err = run([MPIEXEC, "-n", "2", *command(*arguments)], **broken)
    assert code == 1
    assert "run 1 of 1" in err


@needs_mpi
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_stops_all_ranks_after_the_same_step_and_saves_it(here):
    arguments = ["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", *TINY[:-1], 9999]
    process = subprocess.Popen(
        [MPIEXEC, "-n", "2", *command(*arguments, "--log-every", 1)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    log = here / "mine/log.jsonl"
    while process.poll() is None and not (log.is_file() and log.read_text().count("\n") > 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    done = max(record["step"] for record in read_log(log))
    assert f"stopped the training after step {done} of" in err
    assert Checkpoints(here / "mine/checkpoints").names()[-1] == f"step-{done:08d}"
    assert (here / "mine/curves.png").is_file()


@needs_mpi
def test_ranks_reject_and_name_different_settings(tmp_path):
    code, _, err = on(2, "differ", tmp_path)
    assert code == 0, err
    said = [json.loads((tmp_path / f"said-{rank}.json").read_text()) for rank in (0, 1)]
    assert said[0] == said[1]
    assert said[0].keys() == DIFFERENCES.keys()
    for name, (_, message) in DIFFERENCES.items():
        assert message in said[0][name]
        assert len(said[0][name].splitlines()) == 2
        assert not (tmp_path / name / "checkpoints").exists()
    assert (tmp_path / "nothing" / "checkpoints").is_dir()


PHRASEBOOK = ["train", "phrasebook", "--data", "pairs.tsv", *TINY]
ONE_ROW = ["train", "shakespeare-char-cpu", "--data", "text.txt", *TINY_GPT, "--batch-size", 1]
REFUSED = [
    (["train", "phrasebook", "--data", "nothing.tsv"], "cannot read nothing.tsv"),
    (["train", "phrasebook", "--stepps", 3], "there is no option '--stepps'"),
    ([*PHRASEBOOK, "--device", "cuda"], "CuPy"),
    ([*PHRASEBOOK, "--device", "cuda:1"], "cuda:1 is one GPU, but each of 2 ranks needs its own."),
    (ONE_ROW, "the largest batch has 1 row.\nStart fewer ranks, or make the batches larger."),
    (["graph", "mine"], "mpiexec started 2 processes, but `graph` runs in a single process.\nLeave"),
    (["evaluate", "mine"], "mpiexec started 2 processes, but `evaluate` runs in a single process.\nLeave"),
]


@needs_mpi
@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=lambda value: str(value[-1]))
def test_errors_common_to_all_ranks_are_printed_once(here, arguments, message):
    if message == "CuPy" and find_spec("cupy"):
        pytest.skip("CuPy is installed")
    code, out, err = run([MPIEXEC, "-n", "2", *command(*arguments)])
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("error:") == err.count("rank 0: error:") == 1
    assert not (here / "runs/phrasebook/checkpoints").exists()


@needs_mpi
def test_an_error_on_one_rank_ends_all_ranks(here):
    good, bad = (command("train", "phrasebook", "--data", name, *TINY) for name in ("pairs.tsv", "none.tsv"))
    code, _, err = run([MPIEXEC, "-n", "1", *good, ":", "-n", "1", *bad])
    assert code == 2
    assert "rank 1: error: cannot read none.tsv" in err


@needs_mpi
def test_an_mpiexec_of_a_different_mpi_is_detected(here):
    arguments = ["train", "phrasebook", "--data", "pairs.tsv", *TINY]
    code, _, err = run(command(*arguments), OMPI_COMM_WORLD_SIZE="4")
    assert code == 2
    assert "error: mpiexec started 4 processes, but mpi4py, of another MPI, sees 1.\nUse one MPI:" in err


def test_mpiexec_without_mpi4py_is_rejected(monkeypatch, capsys):
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert main(["train", "phrasebook"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: mpiexec started 2 processes that cannot communicate")
    assert "pip install 'minitransformer[distributed]'" in second


def test_a_single_process_does_not_import_mpi(tmp_path):
    code, out, err = run([sys.executable, __file__, "whether_mpi", str(tmp_path)])
    assert (code, out) == (0, "False\n"), err


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
