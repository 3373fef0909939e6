"""Training: the same seed is the same run, whatever interrupts it; what goes wrong is named."""

import json
import math
import os
import re
import signal

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.errors import NonFiniteError
from minigrad.debug import first_nonfinite
from minitransformer import GPT, GPTConfig, TrainConfig, Transformer, TransformerConfig
from minitransformer.errors import UserError
from minitransformer.files import sha256
from minitransformer.layers.lora import add_lora
from minitransformer.tasks import LanguageModelling, Translation
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.checkpoint import CheckpointError, Checkpoints
from minitransformer.training.log import Log, read_log
from minitransformer.training.ranks import Ranks
from minitransformer.training.trainer import Trainer

PAIRS = [
    ("I love you", "Je t'aime"),
    ("I love cats.", "J'aime les chats."),
    ("The cat sat on the mat", "Le chat s'est assis sur le tapis"),
    ("The dog chased the cat", "Le chien a poursuivi le chat"),
    ("The cat sat", "Le chat s'est assis"),
    ("I love the dog", "J'aime le chien"),
    ("The dog sat on the cat", "Le chien s'est assis sur le chat"),
]
TEXT = "the cat sat on the mat, and the dog sat on the cat. " * 4


def translation(folder, dropout=0.2, max_tokens=24, ranks=None, **config):
    words = Tokenizer.train_word([side for pair in PAIRS for side in pair])
    config = TrainConfig(**{"steps": 7, "warmup_steps": 2, "checkpoint_every": 3, "log_every": 1, **config})
    mg.manual_seed(config.seed)
    model = Transformer(
        TransformerConfig(words.vocab_size, 8, 2, 16, 1, 1, dropout, attention_dropout=dropout)
    )
    task = Translation(
        Translation.Data(max_tokens=max_tokens, max_length=max_tokens),
        PAIRS,
        PAIRS[:3],
        words,
        seed=config.seed,
    )
    return Trainer(model, task, config, folder, ranks=ranks)


def language(folder, dropout=0.2, console=None, ranks=None, step_runner=None, **config):
    characters = Tokenizer.train_char([TEXT])
    config = TrainConfig(**{"steps": 7, "warmup_steps": 2, "checkpoint_every": 3, "log_every": 1, **config})
    mg.manual_seed(config.seed)
    model = GPT(GPTConfig(characters.vocab_size, 8, 8, 1, 2, None, dropout, dropout, dropout))
    if config.lora_rank:
        add_lora(model, config.lora_rank, config.lora_alpha, config.lora_targets)
    data = LanguageModelling.Data(block_size=8, batch_size=5)
    task = LanguageModelling(data, TEXT, TEXT[:50], characters, seed=config.seed)
    return Trainer(model, task, config, folder, console, ranks, step_runner=step_runner)


def weights(trainer):
    return {name: tensor.numpy().tobytes() for name, tensor in trainer.model.state_dict().items()}


def validate_to(trainer, *losses):
    """Let validations give these losses, one after the other."""
    losses = iter(losses)
    trainer.task.validate = lambda model: {"loss": next(losses)}


def train_until_power_fails(trainer, step):
    """Train until the power fails in this step."""
    train_step = trainer.train_step

    def fail():
        if trainer.step + 1 == step:
            raise RuntimeError("power")
        return train_step()

    trainer.train_step = fail
    with pytest.raises(RuntimeError, match="power"):
        trainer.train()


def crash_after(count, write):
    """Call `write`, which is interrupted after it has synced or renamed so many files."""
    calls = []

    def crashing(act):
        def act_or_crash(*args):
            calls.append(args)
            if len(calls) > count:
                raise KeyboardInterrupt
            act(*args)

        return act_or_crash

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "fsync"):
            patch.setattr(os, name, crashing(getattr(os, name)))
        with pytest.raises(KeyboardInterrupt):
            write()


both_tasks = pytest.mark.parametrize("begin", [translation, language])


# --- The same seed is the same run ---


@both_tasks
def test_weights_depend_on_the_seed(begin, tmp_path):
    first, second, third = (begin(tmp_path / str(i), seed=seed) for i, seed in enumerate((1, 1, 2)))
    for trainer in (first, second, third):
        trainer.train()
    assert weights(first) == weights(second)
    assert weights(first) != weights(third)


@both_tasks
@pytest.mark.parametrize("broken_at", [2, 4, 6])
def test_a_resumed_run_matches_an_uninterrupted_run(begin, broken_at, tmp_path):
    unbroken = begin(tmp_path / "unbroken")
    unbroken.train()

    train_until_power_fails(begin(tmp_path / "broken"), broken_at)
    resumed = begin(tmp_path / "broken")
    assert resumed.resume() == (broken_at > 3)
    assert resumed.step == (broken_at - 1) // 3 * 3
    resumed.train()
    assert weights(resumed) == weights(unbroken)
    files = [folder / "checkpoints" / "step-00000007" for folder in (unbroken.folder, resumed.folder)]
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (files[0] / name).read_bytes() == (files[1] / name).read_bytes()
    steps = [record["step"] for record in read_log(tmp_path / "broken" / "log.jsonl") if "loss" in record]
    assert steps == [1, 2, 3, 4, 5, 6, 7]


@both_tasks
def test_validating_more_often_does_not_change_training(begin, tmp_path):
    often = begin(tmp_path / "a", validate_every=1)
    seldom = begin(tmp_path / "b", validate_every=100)
    often.train()
    seldom.train()
    assert weights(often) == weights(seldom)


def test_validation_disables_dropout(tmp_path):
    trainer = translation(tmp_path, dropout=0.5)
    trainer.train()
    (record,) = [record for record in read_log(tmp_path / "log.jsonl") if "val_loss" in record]
    assert record["val_loss"] == trainer.task.validate(trainer.model.eval())["loss"]


def test_every_step_draws_a_new_dropout_mask(tmp_path, monkeypatch):
    trainer = translation(tmp_path, dropout=0.5, lr=0.0)
    batch = trainer.task.batch(0)
    monkeypatch.setattr(trainer.task, "batch", lambda step: batch)
    losses = {trainer.train_step()["loss"] for _ in range(4)}
    assert len(losses) == 4


@both_tasks
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_micro_batch_gradients_match_the_whole_batch(begin, dropout, tmp_path):
    options = {"max_tokens": 1000} if begin is translation else {}  # all pairs, of unlike lengths, at once
    gradients = []
    for parts in (1, 3):
        trainer = begin(tmp_path / str(parts), dropout, micro_batches=parts, clip_norm=0.0, **options)
        trainer.model.double()
        record = trainer.train_step()
        gradients.append({name: p.grad.numpy() for name, p in trainer.model.named_parameters()} | record)
    assert gradients[0]["loss"] == pytest.approx(gradients[1]["loss"], rel=1e-12)
    for name, _ in trainer.model.named_parameters():
        np.testing.assert_allclose(gradients[1][name], gradients[0][name], rtol=1e-9, atol=1e-14)


# --- Interrupted from outside ---


def test_a_run_stopped_before_its_first_step_can_restart(tmp_path):
    class Stopped(Ranks):
        def any(self, flag):
            return True

    assert not translation(tmp_path, ranks=Stopped()).train()
    again = translation(tmp_path)
    assert not again.resume()
    assert again.train()


# --- Numbers that are none ---


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_training_stopped_by_a_signal_is_reported(name, tmp_path, monkeypatch, capsys):
    trainer = language(tmp_path)
    batch = trainer.task.batch

    def batch_and_signal(step):
        if step == 1:
            signal.raise_signal(getattr(signal, name))
        return batch(step)

    monkeypatch.setattr(trainer.task, "batch", batch_and_signal)
    assert not trainer.train()
    assert f"{name} stopped the training after step 2 of 7" in " ".join(capsys.readouterr().err.split())


def test_nan_loss_stops_training_and_names_step_and_module(tmp_path, monkeypatch):
    trainer = translation(tmp_path)
    batch = trainer.task.batch

    def poisoned(step):
        if step == 4:
            trainer.model.encoder.layers[0].feed_forward.linear1.weight.array[0, 0] = np.nan
        return batch(step)

    monkeypatch.setattr(trainer.task, "batch", poisoned)
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    first, second = str(caught.value).splitlines()
    assert first.startswith("step 5: the loss is nan")
    assert "first in module encoder.layers.0.feed_forward.linear1" in first
    assert "step-00000003" in first
    assert "--lr" in second

    again = translation(tmp_path)
    assert again.resume()
    assert again.step == 3
    assert all(np.isfinite(p.numpy()).all() for p in again.model.parameters())
    again.train()
    assert again.step == 7


def test_nan_validation_loss_stops_training(tmp_path):
    trainer = translation(tmp_path, validate_every=2)
    validate_to(trainer, math.nan, math.nan)  # again, to locate it
    with pytest.raises(NonFiniteError, match=r"step 2: the validation loss is nan.*no checkpoint was due"):
        trainer.train()


def test_nan_loss_outside_all_modules_is_located(tmp_path, monkeypatch):
    trainer = translation(tmp_path)
    loss = trainer.task.loss
    monkeypatch.setattr(trainer.task, "loss", lambda *given: loss(*given) * 0 / 0)
    with pytest.raises(NonFiniteError, match=r"outside of the modules: in the logits or the loss"):
        trainer.train()


def test_persistent_nan_gradients_in_float16_stop_training(tmp_path):
    """The scaler tries smaller factors first, from 2**16 down to 2**-15."""
    trainer = translation(tmp_path, precision="float16", steps=40)
    next(trainer.model.parameters()).register_hook(lambda g: g * math.nan)
    with pytest.raises(NonFiniteError) as caught:
        trainer.train()
    assert str(caught.value).startswith("step 31: the loss is ")
    assert "the gradient norm nan, at the smallest loss scale, in the backward" in str(caught.value)


def test_finding_the_first_nonfinite_module_leaves_no_hook(tmp_path):
    trainer = translation(tmp_path)
    batch = trainer.task.batch(0)
    assert first_nonfinite(trainer.model, lambda: trainer.task.loss(trainer.model, batch, 0.0)) is None
    assert not any(module._forward_hooks for module in trainer.model.modules())


# --- Checkpoints ---


@pytest.mark.parametrize("crash_at", range(7))  # four files, the folder, its new name, which is then written
def test_a_crash_while_saving_keeps_the_previous_checkpoint(crash_at, tmp_path):
    trainer = translation(tmp_path)
    trainer.train_step()
    trainer.save()
    before = weights(trainer)
    trainer.train_step()
    crash_after(crash_at, trainer.save)
    for folder in (tmp_path / "checkpoints").glob("step-*"):  # only what is complete has its name
        assert len(list(folder.iterdir())) == 4

    again = translation(tmp_path)
    assert again.resume()
    if crash_at < 6:
        assert again.step == 1
        assert weights(again) == before
        again.train_step()
        again.save()
    assert weights(again) == weights(trainer)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000001", "step-00000002"]


def test_the_best_and_last_two_checkpoints_are_kept(tmp_path):
    trainer = translation(tmp_path, steps=5, validate_every=1, checkpoint_every=1)
    validate_to(trainer, 5.0, 2.0, 3.0, 4.0, 3.0)
    trainer.train()
    folder = tmp_path / "checkpoints"
    assert trainer.checkpoints.index == {"last": "step-00000005", "best": "step-00000002"}
    kept = ["step-00000002", "step-00000004", "step-00000005"]
    assert sorted(p.name for p in folder.glob("step-*")) == kept
    os.rename(folder / "step-00000004", folder / "step-00000003")  # a kill came before it was deleted
    translation(tmp_path, steps=5, keep=1).resume()
    assert sorted(p.name for p in folder.glob("step-*")) == [kept[0], kept[2]]


def test_an_existing_checkpoint_can_become_the_best(tmp_path):
    trainer = translation(tmp_path, steps=3, checkpoint_every=1)
    for _ in range(2):
        trainer.train_step()
        trainer.save()
    trainer.save(best=True)
    assert trainer.checkpoints.index == {"last": "step-00000002", "best": "step-00000002"}
    assert translation(tmp_path, steps=3).resume()


def test_checkpoints_can_be_selected_by_best_last_or_step(tmp_path):
    trainer = translation(tmp_path, steps=3, checkpoint_every=1)
    trainer.train()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.path("last") == checkpoints.path("best") == checkpoints.path("step-00000003")
    with pytest.raises(CheckpointError, match=r"no checkpoint 'worst'.\nChoose one of best, last, step-0"):
        checkpoints.path("worst")
    with pytest.raises(CheckpointError, match=r"no checkpoint '\.\.'"):
        checkpoints.path("..")
    with pytest.raises(CheckpointError, match="--resume"):
        Checkpoints(tmp_path / "none").path()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_resume_retrains_from_before_a_damaged_checkpoint(name, tmp_path, capsys):
    trainer = translation(tmp_path, steps=3, checkpoint_every=1)
    trainer.train()
    path = tmp_path / "checkpoints" / "step-00000003" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=rf"3 cannot be loaded: .*{name}.*\n.*step-00000002"):
        Checkpoints(path.parents[1]).restore(trainer.model, trainer.optimizer)
    again = translation(tmp_path, steps=3, checkpoint_every=1)
    assert again.resume()
    assert again.step == 2
    assert "step-00000003 cannot be loaded: " in capsys.readouterr().err
    again.train()
    trainer = translation(tmp_path / "unbroken", steps=3, checkpoint_every=1)
    trainer.train()
    assert weights(again) == weights(trainer)
    assert Checkpoints(path.parents[1]).index == {"last": "step-00000003", "best": "step-00000003"}
    assert (path.parents[1] / "unusable-step-00000003-0" / name).is_file()


def test_resume_without_an_intact_checkpoint_changes_nothing(tmp_path):
    translation(tmp_path, steps=3, checkpoint_every=1).train()
    for path in tmp_path.rglob("model.safetensors"):
        path.write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match=r"no other checkpoint: start over"):
        translation(tmp_path).resume()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_damaged_best_checkpoint_is_replaced(tmp_path):
    trainer = translation(tmp_path, steps=4, validate_every=1, checkpoint_every=1)
    validate_to(trainer, 1.0, 2.0, 2.0, 2.0)
    trainer.train()
    (tmp_path / "checkpoints" / "step-00000001" / "model.safetensors").write_bytes(b"")
    again = translation(tmp_path, steps=5, validate_every=1, checkpoint_every=1)
    validate_to(again, 1.5)
    assert again.resume()
    assert again.checkpoints.index["best"] == "step-00000004"
    again.train()
    assert again.checkpoints.index["best"] == "step-00000005"


def test_nonfinite_weights_are_named_and_not_saved_or_loaded(tmp_path):
    trainer = translation(tmp_path)
    trainer.train()
    trainer.step += 1
    name, parameter = list(trainer.model.named_parameters())[3]
    parameter.array.flat[0] = np.nan
    with pytest.raises(NonFiniteError, match=f"step 8: {name} contains"):
        trainer.save()
    path = tmp_path / "checkpoints" / "step-00000007"
    mg.save_file(trainer.model.state_dict(), path / "model.safetensors")
    sums = (path / "SHA256SUMS").read_text().splitlines()[1:]
    sums.append(f"{sha256((path / 'model.safetensors').read_bytes())}  model.safetensors")
    (path / "SHA256SUMS").write_text("".join(f"{line}\n" for line in sums))
    with pytest.raises(CheckpointError, match=f"{name} contains infinity or NaN"):
        Checkpoints(path.parent).load_model(trainer.model)


def test_a_new_run_rejects_existing_checkpoints(tmp_path):
    translation(tmp_path).train()
    with pytest.raises(UserError, match="already contains checkpoints"):
        translation(tmp_path).train()


# --- What is learned ---


def test_a_few_pairs_are_memorized(tmp_path):
    trainer = translation(
        tmp_path, 0.0, 1000, steps=150, lr=1e-2, label_smoothing=0.0, schedule="constant", log_every=150
    )
    trainer.train()
    (record,) = [record for record in read_log(tmp_path / "log.jsonl") if "loss" in record]
    assert record["loss"] < 0.05
    assert trainer.task.validate(trainer.model.eval())["token_accuracy"] == 1.0


def test_weight_decay_applies_only_to_matrices(tmp_path):
    plain, decayed = (translation(tmp_path / str(decay), weight_decay=decay) for decay in (0.0, 0.9))
    plain.train_step()
    decayed.train_step()
    other = dict(decayed.model.named_parameters())
    for name, p in plain.model.named_parameters():
        assert np.array_equal(p.numpy(), other[name].numpy()) == (p.ndim < 2), name
    grouped = [id(p) for group in plain.optimizer.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in plain.model.parameters())
    assert isinstance(plain.optimizer, mg.optim.AdamW)


def test_gradients_are_clipped_to_clip_norm(tmp_path):
    trainer = translation(tmp_path, clip_norm=0.01)
    assert trainer.train_step()["grad_norm"] > 0.01
    norm = math.sqrt(sum((p.grad.numpy() ** 2).sum() for p in trainer.model.parameters()))
    assert norm == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("float32", "highest")])
@pytest.mark.parametrize("before", ["high", "highest"])
def test_training_uses_the_configured_matmul_precision(precision, expected, before, tmp_path, monkeypatch):
    mg.set_float32_matmul_precision(before)
    try:
        trainer = translation(tmp_path, precision=precision, steps=2)
        seen = {"loss": [], "backward": [], "validate": []}
        see = lambda part: seen[part].append(mg.get_float32_matmul_precision())
        for part in ("loss", "validate"):
            compute = getattr(trainer.task, part)
            seeing = lambda *args, part=part, compute=compute: (see(part), compute(*args))[1]
            monkeypatch.setattr(trainer.task, part, seeing)
        next(trainer.model.parameters()).register_hook(lambda g: see("backward"))
        trainer.train()
        assert set().union(*seen.values()) == {expected}
        assert all(seen.values())
        assert mg.get_float32_matmul_precision() == before

        trainer.model.decoder = None
        with pytest.raises((AttributeError, TypeError)):
            trainer.train_step()
        assert mg.get_float32_matmul_precision() == before
    finally:
        mg.set_float32_matmul_precision("highest")


def test_validation_loss_excludes_label_smoothing(tmp_path):
    smooth, sharp = (translation(tmp_path, 0.0, label_smoothing=s) for s in (0.5, 0.0))
    assert smooth.task.validate(smooth.model) == sharp.task.validate(sharp.model)
    assert smooth.train_step()["loss"] != sharp.train_step()["loss"]


# --- Settings ---


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0}, {"steps": -3}, {"lr": -1.0}, {"lr": math.nan}, {"micro_batches": 0}, {"log_every": 0},
        {"validate_every": -1}, {"checkpoint_every": -1}, {"warmup_steps": -1}, {"label_smoothing": 1.0},
        {"seed": -1}, {"seed": 2**64}, {"betas": (0.9, 1.0)}, {"weight_decay": -0.1}, {"clip_norm": -1.0},
        {"schedule": "linaer"}, {"optimizer": "adam"}, {"keep": 0}, {"ema_decay": 1.0}, {"momentum": -0.1},
        {"patience": -1}, {"epochs": -1}, {"validation_texts": -1}, {"samples": -1}, {"decay_steps": -1},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_training_settings_are_named(wrong):
    with pytest.raises(UserError) as caught:
        TrainConfig(**wrong)
    first, second = str(caught.value).splitlines()
    assert next(iter(wrong)) in first
    assert second.startswith("Choose")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"betas": 0.9}, "betas must be (a number, a number), got 0.9.\nPass one, or leave it out: "),
        ({"betas": ("a", 0.9)}, "betas must be (a number, a number), got ('a', 0.9)."),
        ({"steps": 2.0}, "steps must be an integer, got 2.0.\nPass one, or leave it out: the default is"),
        ({"steps": True}, "steps must be an integer, got True."),
        ({"lr": "1e-3"}, "lr must be a number, got '1e-3'."),
        ({"optimizer": None}, "optimizer must be a string, got None."),
    ],
    ids=str,
)
def test_training_settings_of_a_wrong_type_are_rejected(wrong, expected):
    with pytest.raises(UserError, match=f"^{re.escape(expected)}"):
        TrainConfig(**wrong)


def test_training_settings_accept_numpy_numbers_and_integers():
    config = TrainConfig(np.int64(5), lr=1, momentum=np.float32(0.5), betas=[0, 0.5])
    assert (config.steps, config.lr, config.momentum, config.betas) == (5, 1, 0.5, [0, 0.5])


def test_a_text_shorter_than_a_block_is_refused():
    characters = Tokenizer.train_char(["abc"])
    with pytest.raises(UserError, match=r"a text of 3 tokens is too short: expected .* 4.*\n.*--block-size"):
        LanguageModelling(LanguageModelling.Data(block_size=3), "abc", "abc", characters)


# --- What a run leaves behind ---


def test_the_log_records_steps_and_validations(tmp_path):
    trainer = translation(tmp_path, steps=6, log_every=2, validate_every=3)
    trainer.train()
    records = read_log(tmp_path / "log.jsonl")
    training = [record for record in records if "loss" in record]
    assert [record["step"] for record in training] == [2, 4, 6]
    names = {"step", "loss", "nll_loss", "lr", "grad_norm", "tokens_per_second"}
    assert all(record.keys() == names for record in training)
    validations = [record for record in records if "val_loss" in record]
    assert [record["step"] for record in validations] == [3, 6]
    assert all(record.keys() == {"step", "val_loss", "val_token_accuracy"} for record in validations)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_the_log_also_has_the_unsmoothed_training_loss(tmp_path, micro_batches):
    trainer = translation(tmp_path, dropout=0.0, micro_batches=micro_batches)
    batch = translation(tmp_path, dropout=0.0).task.batch(0)
    smooth, plain = (
        trainer.task.loss(trainer.model, batch, smoothing).item() / batch.n_tokens for smoothing in (0.1, 0.0)
    )
    entry = trainer.train_step()
    assert entry["loss"] == pytest.approx(smooth, rel=1e-5)
    assert entry["nll_loss"] == pytest.approx(plain, rel=1e-5)
    assert abs(smooth - plain) > 1e-3
    assert "nll_loss" not in translation(tmp_path, label_smoothing=0.0).train_step()


def test_log_accepts_numpy_scalars_and_rejects_arrays(tmp_path):
    with Log(tmp_path / "log.jsonl", print) as log:
        log.write({"step": np.int64(1), "loss": np.float32(0.5), "worst": np.float32("nan"), "ok": np.True_})
        with pytest.raises(UserError, match=r"weights \(ndarray\)\.\n.*callback"):
            log.write({"step": 2, "weights": np.ones(2)})
    assert (tmp_path / "log.jsonl").read_text() == '{"step": 1, "loss": 0.5, "worst": null, "ok": true}\n'


def test_checkpoint_state_is_standard_json(tmp_path):
    trainer = translation(tmp_path)
    trainer.train_step()
    trainer.save()  # before the first validation: the best score is infinite

    def refuse(constant):
        raise AssertionError(constant)

    text = (trainer.checkpoints.path("last") / "state.json").read_text()
    assert json.loads(text, parse_constant=refuse)["best_score"]["value"] is None
    again = translation(tmp_path)
    again.resume()
    assert again.best.value == math.inf
