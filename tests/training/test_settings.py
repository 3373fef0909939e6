"""The trainer's settings: epochs, optimizers, schedules, averages, early stopping, callbacks, a full disk."""

import copy
import errno
import io
import math
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console

import minigrad as mg
from minigrad import optim
from minitransformer import TrainConfig, Trainer
from minitransformer.data.splits import Sources, Splits
from minitransformer.errors import UserError
from minitransformer.recipes import Recipe
from minitransformer.runs.live import LiveRun
from minitransformer.runs.memory_needed import per_parameter
from minitransformer.runs.summaries import progress_of
from minitransformer.tasks import ArrayTask, LanguageModelling, MaskedLanguageModelling, Metric, Translation
from minitransformer.tasks.metrics import METRICS
from minitransformer.training.averaging import MovingAverage, mean_of
from minitransformer.training.callbacks import EVENTS, Callback
from minitransformer.training.checkpoint import CheckpointError, Checkpoints
from minitransformer.training.log import Log, read_log
from minitransformer.training.optimizers import build_optimizer
from minitransformer.training.progress import SlowSteps
from minitransformer.training.stopping import BestScore
from minitransformer.training.validation import Validation
from tests.tiny import PAIRS as MORE_PAIRS
from tests.tiny import TINY
from tests.training.test_trainer import (
    PAIRS,
    TEXT,
    language,
    train_until_power_fails,
    translation,
    validate_to,
    weights,
)


def arrays(folder, rows=64, batch_size=32, callbacks=(), console=None, **config):
    """A linear model of 64 examples: a training of a few milliseconds."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32") + rng.normal(size=(rows, 1)).astype("float32")
    config = TrainConfig(**{"steps": 6, "warmup_steps": 2, "lr": 0.1, **config})
    mg.manual_seed(config.seed)
    task = ArrayTask((x, y), batch_size=batch_size, validation=(x[:8], y[:8]))
    return Trainer(mg.nn.Linear(3, 1), task, config, Path(folder), console, callbacks=callbacks)


# --- How long, and how fast ---


def test_epochs_are_passes_over_the_data(tmp_path):
    trainer = arrays(tmp_path, epochs=3, steps=1000)
    trainer.train()
    assert trainer.step == trainer.config.steps == 3 * 64 // 32
    assert progress_of(tmp_path, TrainConfig(epochs=3)).startswith("6 steps (3 epochs) in ")
    batches = translation(tmp_path / "pairs", epochs=2)
    assert batches.config.steps == 2 * len(batches.task.order.epoch(0))
    text = language(tmp_path / "text", epochs=2)
    assert text.config.steps == 2 * (len(text.task.train) // 40)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_sgd_optimizer_matches_its_definition(momentum, tmp_path):
    trainer = arrays(tmp_path, optimizer="sgd", momentum=momentum, clip_norm=0.0, schedule="constant")
    weight = trainer.model.weight.numpy().copy()
    velocity = 0.0
    for step in (1, 2, 3):
        lr = trainer.config.learning_rate(step)
        assert trainer.train_step()["lr"] == lr
        assert [group["lr"] for group in trainer.optimizer.param_groups] == [lr, lr]
        velocity = momentum * velocity + trainer.model.weight.grad.numpy()
        weight -= lr * velocity
    np.testing.assert_allclose(trainer.model.weight.numpy(), weight, rtol=1e-6)


def test_muon_updates_hidden_matrices_and_adamw_the_rest(tmp_path):
    settings = {"optimizer": "muon", "momentum": 0.8, "weight_decay": 0.1, "lr": 0.01}
    trainer = language(tmp_path, schedule="constant", warmup_steps=0, clip_norm=0.0, **settings)
    twin = copy.deepcopy(trainer.model)
    parameters = dict(twin.named_parameters())
    hidden = [
        name
        for name, p in parameters.items()
        if p.ndim == 2 and not name.startswith(("embedding", "positions"))
    ]
    assert len(hidden) == 4  # queries, keys and values; output of attention; feed-forward
    vectors = [p for p in parameters.values() if p.ndim < 2]
    outer = [p for name, p in parameters.items() if p.ndim == 2 and name not in hidden]
    muon = optim.Muon(map(parameters.get, hidden), 0.01, 0.1, 0.8, adjust_lr_fn="match_rms_adamw")
    adamw = [
        optim.AdamW(group, 0.01, (0.9, 0.98), 1e-9, decay) for group, decay in ((vectors, 0.0), (outer, 0.1))
    ]
    for step in range(3):
        if step == 2:  # as it would be after a resume
            mg.save_file(trainer.optimizer.state_dict(), tmp_path / "optimizer.safetensors")
            state = mg.load_file(tmp_path / "optimizer.safetensors")
            trainer.optimizer = build_optimizer(trainer.model, trainer.config)
            trainer.optimizer.load_state_dict(state)
        trainer.train_step()
        for p, q in zip(parameters.values(), trainer.model.parameters(), strict=True):
            p.grad = q.grad
        for optimizer in (muon, *adamw):
            optimizer.step()
    for (name, p), q in zip(parameters.items(), trainer.model.parameters(), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy(), err_msg=name)


def test_the_paper_schedule_derives_its_peak_from_d_model(tmp_path):
    trainer = translation(tmp_path, schedule="paper", warmup_steps=4)
    for step in (1, 4, 5):
        expected = optim.paper_schedule(step, trainer.model.config.d_model, 4)
        assert trainer.config.learning_rate(step) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(UserError, match=r"needs the model's d_model.*\n.*inverse_sqrt"):
        arrays(tmp_path / "linear", schedule="paper", warmup_steps=4).train()


@pytest.mark.parametrize(("rows", "expected"), [(40, 50), (600, 300), (9000, 1000)])
def test_the_default_validation_interval_is_about_an_epoch(tmp_path, rows, expected):
    trainer = arrays(tmp_path, rows=rows, batch_size=2, steps=2000, validate_every=0)
    assert trainer.config.validate_every == expected  # 20, 300 and 4,500 batches an epoch
    trainer.step = expected
    assert trainer.due("validate_every")


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "cosine", "linear", "wsd", "constant", "paper"])
def test_a_warmup_longer_than_the_training_is_reported(tmp_path, schedule):
    for steps in (3, 4):
        trainer = translation(tmp_path / str(steps), steps=steps, schedule=schedule, warmup_steps=4)
        trainer.console = Console(file=(output := io.StringIO()), width=200)
        trainer.train()
        said = "warmup_steps = 4 is more than steps = 3: the learning rate ends at" in output.getvalue()
        assert said == (steps == 3)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "inverse_sqrt"}, {1: 1 / 2, 2: 1, 8: 1 / 2}),
        ({"schedule": "constant"}, {1: 1 / 2, 2: 1, 12: 1}),
        ({"schedule": "cosine", "min_lr": 0.5}, {1: 1 / 3, 2: 2 / 3, 3: 1, 8: 0.75, 13: 0.5}),
        ({"schedule": "linear", "min_lr": 0.5}, {1: 1 / 3, 2: 2 / 3, 3: 1, 8: 0.75, 13: 0.5}),
        ({"schedule": "wsd", "decay_steps": 4}, {1: 1 / 3, 3: 1, 9: 1, 10: 0.5, 13: 0}),
        ({"schedule": "wsd", "min_lr": 0.5}, {11: 1, 12: 0.5 + 0.5 * (1 - 0.5**0.5)}),  # a fifth: 2 steps
    ],
    ids=lambda value: value.get("schedule", ""),
)
def test_schedules_match_hand_computed_rates(settings, expected):
    config = TrainConfig(steps=12, lr=1.0, warmup_steps=2, **settings)
    assert {step: config.learning_rate(step) for step in expected} == pytest.approx(expected)


# --- Gradients, and what must not change them ---


@pytest.mark.slow
def test_validation_samples_do_not_use_the_training_generator(tmp_path, monkeypatch):
    drawn = lambda run, splits: [f"{mg.manual_seed(0)} {mg.rand(1).item()}"]  # like a long text's samples
    monkeypatch.setattr(LanguageModelling, "samples", drawn)
    for begin, texts in ((translation, 1), (language, 0)):
        plain = begin(tmp_path / f"plain-{texts}", steps=2, validate_every=100)
        talkative = alive(begin(tmp_path / f"talkative-{texts}", steps=2, validate_every=1), texts, samples=1)
        plain.train()
        talkative.train()
        assert weights(plain) == weights(talkative)
        shown = [r["samples"] for r in read_log(talkative.folder / "log.jsonl") if "samples" in r]
        assert list(map(len, shown)) == [1, 1]


def alive(trainer, texts=0, samples=0):
    """The trainer of test_trainer, with a task that knows its run."""
    kind = type(trainer.task)
    data = {"train": PAIRS, "validation": PAIRS[:3]} if kind is Translation else {"validation": TEXT[:50]}
    recipe = Recipe(kind.name)
    tokenizer = trainer.task.tokenizer
    trainer.task.live = LiveRun(trainer.folder, recipe, kind, tokenizer, [], trainer.model, Splits(data))
    trainer.validation = Validation(trainer.task, texts, samples)
    return trainer


# --- Averages ---


def test_the_moving_average_matches_its_recurrence(tmp_path):
    trainer = arrays(tmp_path, ema_decay=0.5)
    expected = trainer.model.weight.numpy().astype(np.float64)
    for step in range(1, 7):
        trainer.advance(Log(None, print), lambda *_: None)
        decay = min(0.5, (step - 1) / (step + 8))
        expected = decay * expected + (1 - decay) * trainer.model.weight.numpy()
    np.testing.assert_allclose(trainer.average.averages["weight"], expected, rtol=1e-5)
    assert not np.allclose(trainer.model.weight.numpy(), expected, rtol=1e-4)


def test_validation_uses_the_average_and_restores_weights(tmp_path, monkeypatch):
    trainer = arrays(tmp_path, ema_decay=0.9, validate_every=6)
    seen = []
    validate = trainer.task.validate
    monkeypatch.setattr(
        trainer.task, "validate", lambda model: (seen.append(model.weight.numpy().copy()), validate(model))[1]
    )
    trainer.train()
    plain = arrays(tmp_path / "plain")
    plain.train()
    assert weights(trainer) == weights(plain)
    (averaged,) = seen
    assert np.array_equal(averaged, trainer.average.averages["weight"])
    assert not np.array_equal(averaged, trainer.model.weight.numpy())


def test_ema_and_averaged_checkpoints_can_be_loaded(tmp_path):
    trainer = arrays(tmp_path, ema_decay=0.9, checkpoint_every=1, validate_every=6, keep=4)
    saved = []
    trainer.callbacks.methods["on_checkpoint"] = [
        lambda trainer, path: saved.append(trainer.model.weight.numpy().copy())
    ]
    trainer.train()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.names() == [f"step-{step:08d}" for step in (3, 4, 5, 6)]
    read = lambda which: checkpoints.read_weights(which)[1]["weight"].numpy()
    assert np.array_equal(read("last"), saved[-1])
    assert np.array_equal(read("ema"), trainer.average.averages["weight"])
    assert np.array_equal(read("best"), read("ema"))  # what the validation scored
    np.testing.assert_allclose(read("average:3"), np.mean(saved[-3:], axis=0), rtol=1e-6)
    for wrong in ("average:5", "average:0", "average:", "average:x"):
        with pytest.raises(CheckpointError, match=r"has 4 checkpoints.*\n.*--keep N"):
            read(wrong)
    model = mg.nn.Linear(3, 1)
    checkpoints.load_model(model, "average:2")
    np.testing.assert_allclose(model.weight.numpy(), np.mean(saved[-2:], axis=0), rtol=1e-6)


def test_damaged_ema_weights_are_detected(tmp_path):
    arrays(tmp_path, ema_decay=0.9).train()
    path = tmp_path / "checkpoints" / "step-00000006" / "ema.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match=r"ema\.safetensors does not match"):
        Checkpoints(tmp_path / "checkpoints").read_weights("ema")


def test_averaged_states_keep_dtypes_and_integers():
    states = [{"w": mg.tensor([float(i), 2.0 * i]), "n": mg.tensor([4 * i - 3])} for i in (1, 2)]
    mean = mean_of(states)
    assert mean["w"].numpy().tolist() == [1.5, 3.0]
    assert mean["w"].dtype == mg.float32
    assert mean["n"].numpy().tolist() == [5]  # the last


def test_a_shared_parameter_is_averaged_under_each_of_its_names():
    class Tied(mg.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = mg.nn.Linear(2, 2, bias=False)
            self.b = mg.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

    average = MovingAverage(Tied(), 0.5)
    average.averages["a.weight"] += 1
    state = average.state_dict()
    assert state.keys() == average.model.state_dict().keys()
    assert all(np.array_equal(tensor.numpy(), average.averages["a.weight"]) for tensor in state.values())


# --- Resuming ---


@pytest.mark.parametrize("broken_at", [3, 5, 6, 8])
def test_resume_with_ema_and_patience_matches_an_unbroken_run(broken_at, tmp_path):
    settings = {
        "steps": 20, "checkpoint_every": 2, "validate_every": 1, "ema_decay": 0.9, "patience": 4,
        "optimizer": "sgd", "lr": 0.01, "schedule": "wsd",
    }  # fmt: skip
    losses = [5.0, 4.0, 4.5, 3.0, 3.5, 3.0, 3.5, 3.5, 1.0]  # patience ends at step 8

    def begin(folder, console=None):
        trainer = arrays(folder, console=console, **settings)
        trainer.task.validate = lambda model: {"loss": losses[trainer.step - 1]}
        return trainer

    unbroken = begin(tmp_path / "unbroken", Console(file=(output := io.StringIO())))
    assert unbroken.train()
    assert unbroken.step == 8
    assert "stopped early, at step 8: 4 validations without a better loss" in output.getvalue()
    train_until_power_fails(begin(tmp_path / "broken"), broken_at)
    resumed = begin(tmp_path / "broken")
    assert resumed.resume()
    assert resumed.train()
    assert resumed.step == 8
    assert weights(resumed) == weights(unbroken)
    for trainer in (unbroken, resumed):
        assert trainer.checkpoints.index == {"last": "step-00000008", "best": "step-00000004"}
    folders = [t.folder / "checkpoints" / "step-00000008" for t in (unbroken, resumed)]
    for name in ("model.safetensors", "ema.safetensors", "optimizer.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    again = begin(tmp_path / "broken")
    assert again.resume()
    assert again.train()  # it stays stopped
    assert again.step == 8


def test_an_average_can_begin_when_a_run_is_resumed(tmp_path):
    arrays(tmp_path, steps=2).train()
    with pytest.raises(CheckpointError, match=r"no moving average.*\n.*--ema-decay"):
        Checkpoints(tmp_path / "checkpoints").read_weights("ema")
    again = arrays(tmp_path, steps=3, ema_decay=0.5)
    again.resume()
    assert np.array_equal(again.average.averages["weight"], again.model.weight.numpy())


# --- When to stop, and what is best ---


@pytest.mark.parametrize(
    ("score", "best"), [("accuracy", 0.75), ("next_sentence_loss", 0.25), ("loss", 0.25)]
)
def test_the_best_score_is_the_lowest_loss_or_highest_metric(score, best):
    monitored = BestScore(score, 0, MaskedLanguageModelling.metric(score))
    for value in (0.5, 0.25, 0.75):
        monitored.update({score: value})
    assert monitored.value == best


class Errors(ArrayTask):
    """Its validations have a score of their own, and no loss."""

    metrics: ClassVar = {"rmse": Metric("RMSE", higher_is_better=False)}

    def score(self, model, examples):
        return {"rmse": super().score(model, examples)["loss"] ** 0.5, "spread": 1.0}


@pytest.mark.parametrize(
    ("monitor", "problem"),
    [
        ("loss", r"no score 'loss' to monitor.\nChoose one of rmse, spread"),
        ("spread", r"'spread' cannot be monitored: .*\nAdd \"spread\": Metric"),
    ],
)
def test_an_invalid_monitor_fails_before_training(monitor, problem, tmp_path):
    task = Errors((np.ones((9, 1), "float32"), np.ones((9, 1), "float32")))
    config = TrainConfig(steps=1, monitor=monitor)
    trainer = Trainer(mg.nn.Linear(1, 1), task, config, tmp_path)
    with pytest.raises(UserError, match=problem):
        trainer.train()
    assert trainer.step == 0


def test_tasks_define_the_direction_of_their_own_scores(tmp_path, monkeypatch):
    task = Errors((np.ones((9, 1), "float32"), np.ones((9, 1), "float32")))
    config = TrainConfig(steps=3, validate_every=1, checkpoint_every=1, keep=3, monitor="rmse")
    trainer = Trainer(mg.nn.Linear(1, 1), task, config, tmp_path)
    values = iter([9.0, 0.5, 0.2, 0.9])  # the first before the training
    monkeypatch.setattr(task, "validate", lambda model: {"rmse": next(values)})
    trainer.train()
    assert trainer.checkpoints.index["best"] == "step-00000002"
    again = Trainer(mg.nn.Linear(1, 1), task, config, tmp_path)
    assert again.resume()
    assert again.best.value == 0.2


def test_changing_the_monitored_score_resets_the_best():
    first, second = (BestScore(name, 2, METRICS[name]) for name in ("loss", "bleu"))
    first.update({"loss": 1.0})
    second.load_state_dict(first.state_dict())
    assert (second.value, second.waited) == (-math.inf, 0)
    assert second.update({"loss": 2.0, "bleu": 0.0})


def test_nan_is_never_the_best_score():
    best = BestScore("bleu", 1, METRICS["bleu"])
    assert not best.update({"bleu": math.nan})
    assert best.is_out_of_patience


# --- Generated texts ---


def test_validations_score_and_show_generated_texts(tmp_path, capsys, monkeypatch):
    from minitransformer.cli import main

    monkeypatch.setattr("minitransformer.cli.train.finish", lambda *_: None)  # what follows the training
    data = tmp_path / "pairs.tsv"
    run = tmp_path / "run"
    data.write_text("".join(f"{s}\t{t}\n" for s, t in MORE_PAIRS), encoding="utf-8")
    flags = shlex.split("--validate-every 2 --validation-texts 2 --samples 2 --monitor chrf --epochs 4")
    assert main(["train", "phrasebook", "--data", str(data), "--run-dir", str(run), *TINY, *flags]) == 0
    err = capsys.readouterr().err
    assert ", 4 steps (4 epochs)" in err
    validations = [record for record in read_log(run / "log.jsonl") if "val_loss" in record]
    for record in validations:
        assert {"val_bleu", "val_chrf", "val_exact_match", "val_token_accuracy"} <= record.keys()
        assert len(record["samples"]) == 2
        assert all(" -> " in sample and f"\n    {sample}\n" in err for sample in record["samples"])
    assert len(validations) > 1


def test_language_modelling_rejects_validation_texts(tmp_path):
    with pytest.raises(UserError, match="validation_texts = 5 has no effect"):
        alive(language(tmp_path), texts=5)


# --- Callbacks ---


class Witness:
    """Notes each event, with the step."""

    def __init__(self):
        self.events = []

    def __getattr__(self, name):
        if name not in EVENTS:
            raise AttributeError(name)
        return lambda trainer, *others: self.events.append((name, trainer.step, *others))

    def __dir__(self):
        return EVENTS


def test_callbacks_receive_all_events_in_order(tmp_path):
    witness = Witness()
    arrays(tmp_path, steps=2, validate_every=2, checkpoint_every=1, callbacks=[witness]).train()
    assert [event[:2] for event in witness.events] == [
        ("on_train_begin", 0), ("on_step_end", 1), ("on_checkpoint", 1), ("on_step_end", 2),
        ("on_validation_end", 2), ("on_checkpoint", 2), ("on_train_end", 2),
    ]  # fmt: skip
    assert witness.events[2][2] == tmp_path / "checkpoints" / "step-00000001"
    assert witness.events[4][2].keys() == {"loss"}


def test_callbacks_can_read_gradients_and_extend_the_log(tmp_path):
    class Norms(Callback):
        def on_step_end(self, trainer, record):
            if trainer.due("log_every"):
                record["bias_grad"] = abs(trainer.model.bias.grad.item())

    arrays(tmp_path, steps=4, log_every=2, callbacks=[Norms()]).train()
    records = [record for record in read_log(tmp_path / "log.jsonl") if "loss" in record]
    assert [record["step"] for record in records] == [2, 4]
    assert all(record["bias_grad"] > 0 for record in records)


@pytest.mark.parametrize(
    "wrong", [object(), Callback, type("Typo", (), {"on_step_ended": None})()], ids=["none", "class", "typo"]
)
def test_invalid_callbacks_are_rejected(wrong, tmp_path):
    with pytest.raises(UserError, match=r"on_train_begin, on_step_end"):
        arrays(tmp_path, callbacks=[wrong])


# --- A full disk ---


def fill(folder):
    """Write until there is no space."""
    with (folder / "ballast").open("ab", 0) as file:
        for size in (2**16, 2**10, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 20 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if sys.platform != "linux" or shutil.which("mount") is None:
        pytest.skip("a small file system is mounted on Linux only")
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of 20 MB needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_temporarily_full_disk_keeps_checkpoints_and_log(small_disk):
    class Disk(Callback):
        def on_step_end(self, trainer, record):
            record |= dict.fromkeys(map(str, range(1000)), 0.5)  # more than the rest of a block
            if trainer.step == 3:
                fill(small_disk)
            if trainer.step == 9:
                (small_disk / "ballast").unlink()

        def on_validation_end(self, trainer, scores):
            if trainer.step == 8:
                before.extend(trainer.checkpoints.names())
                assert Checkpoints(trainer.checkpoints.folder).load_model(mg.nn.Linear(3, 1), "best")

    output = io.StringIO()
    before = []
    settings = {"steps": 12, "checkpoint_every": 2, "validate_every": 2, "log_every": 1, "ema_decay": 0.9}
    console = Console(file=output, width=500)
    trainer = arrays(small_disk / "run", callbacks=[Disk()], console=console, **settings)
    trainer.train()
    assert before == ["step-00000002"]
    text = " ".join(output.getvalue().split())
    assert "the disk is full: step 4 is not saved, the last checkpoint is" in text
    assert "log.jsonl: No space left on device" in text
    names = trainer.checkpoints.names()
    assert names[-2:] == ["step-00000010", "step-00000012"]
    assert not list(trainer.checkpoints.folder.glob(".*"))
    steps = [r["step"] for r in read_log(trainer.folder / "log.jsonl") if "loss" in r]
    assert steps == list(range(1, 13))
    plain = arrays(small_disk / "plain", **settings)
    plain.train()
    loaded = mg.nn.Linear(3, 1)
    Checkpoints(trainer.checkpoints.folder).load_model(loaded, "last")
    assert {n: t.numpy().tobytes() for n, t in loaded.state_dict().items()} == weights(plain)


def test_a_full_disk_is_an_error_and_the_run_can_be_resumed(small_disk):
    class Full(Callback):
        def on_step_end(self, trainer, record):
            if trainer.step == 3:
                fill(small_disk)

    settings = {"steps": 5, "checkpoint_every": 2, "validate_every": 5}
    trainer = arrays(small_disk / "run", callbacks=[Full()], **settings)
    with pytest.raises(UserError, match=r"step 5 cannot be saved.*step-00000002\.\n.*--resume"):
        trainer.train()
    (small_disk / "ballast").unlink()
    again = arrays(small_disk / "run", **settings)
    plain = arrays(small_disk / "plain", **settings)
    assert again.resume()
    assert again.step == 2
    again.train()
    plain.train()
    assert weights(again) == weights(plain)


def test_best_checkpoint_skips_failed_saves(tmp_path, monkeypatch):
    trainer = arrays(tmp_path, steps=4, validate_every=1, checkpoint_every=4)
    validate_to(trainer, 4.0, 1.0, 2.0, 5.0)
    save = trainer.checkpoints.save

    def full(step, *others):
        if step == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(step, *others)

    monkeypatch.setattr(trainer.checkpoints, "save", full)
    trainer.train()
    assert trainer.checkpoints.index["best"] == "step-00000003"
    assert trainer.best.value == 2.0


def test_starting_over_deletes_only_tensorboard_event_files(tmp_path):
    from minitransformer.runs.folder import begin, new_record

    recipe = Recipe("language-modelling")
    run = tmp_path / "run"
    begin(run, new_record(recipe, None, {}, Sources()), recipe, None)
    events = run / "tensorboard" / "events.out.tfevents.1.host.step-0"
    events.parent.mkdir()
    for path in (events, events.with_name("mine.txt")):
        path.write_text("")
    begin(run, new_record(recipe, None, {}, Sources()), recipe, None)
    assert [path.name for path in events.parent.iterdir()] == ["mine.txt"]


def test_other_disk_errors_stop_the_training(tmp_path, monkeypatch):
    trainer = arrays(tmp_path)

    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(trainer.checkpoints, "save", broken)
    with pytest.raises(OSError, match="Input/output error"):
        trainer.train()


# --- What is shown ---


def test_slow_steps_on_several_threads_are_reported_once():
    slow = SlowSteps(threads=lambda: 2)
    usual = [1000.0 + step % 7 for step in range(60)]
    pauses = [400.0] * 7 + [1000.0] + [100.0] * 7 + [1000.0]
    assert not any(map(slow.warning, usual + pauses))
    said = [slow.warning(400.0) for _ in range(50)]
    assert [i for i, message in enumerate(said) if message] == [7]
    assert "2.5 times as long" in said[7]
    assert "OPENBLAS_NUM_THREADS=1" in said[7]
    alone = SlowSteps(threads=lambda: 1)
    assert not any(map(alone.warning, usual + [10.0] * 30))


def test_the_trainer_warns_of_slow_steps(tmp_path, monkeypatch):
    output = io.StringIO()
    trainer = arrays(tmp_path, steps=70, console=Console(file=output, width=500), log_every=100)
    trainer._slow = SlowSteps(threads=lambda: 2)
    step = trainer.train_step
    speed = lambda: 1000.0 if trainer.step < 50 else 10.0
    monkeypatch.setattr(trainer, "train_step", lambda: step() | {"tokens_per_second": speed()})
    trainer.train()
    assert output.getvalue().count("warning: steps take 100.0 times as long") == 1


def test_tensorboard_files_match_the_log(tmp_path):
    pytest.importorskip("tensorboardX")
    from minitransformer.training.tensorboard import TensorBoard

    folder = tmp_path / "run" / "tensorboard"
    for steps in (2, 4):  # and then resumed
        trainer = arrays(tmp_path / "run", steps=steps, log_every=1, validate_every=2,
                         callbacks=[TensorBoard(folder)])  # fmt: skip
        trainer.resume()
        trainer.train()
    found = list(events(folder))
    log = read_log(tmp_path / "run" / "log.jsonl")
    for name, key in (("train/loss", "loss"), ("validation/loss", "val_loss")):
        expected = [(r["step"], r[key]) for r in log if key in r]
        values = [(step, value) for step, tag, value in found if tag == name]
        assert values == [(step, pytest.approx(value, rel=1e-6)) for step, value in expected]


def events(folder):
    """Step, name and value of each scalar in a folder of event files, in the order of their names."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:
            size = int.from_bytes(content[:8], "little")
            event = Event.FromString(content[12 : 12 + size])
            content = content[16 + size :]
            yield from ((event.step, value.tag, value.simple_value) for value in event.summary.value)


def test_memory_estimates_include_optimizer_and_ema_state():
    assert per_parameter(TrainConfig()) == 4  # weight, gradient, two moments
    assert per_parameter(TrainConfig(optimizer="sgd", momentum=0.0)) == 2
    assert per_parameter(TrainConfig(optimizer="sgd", ema_decay=0.9)) == 4
