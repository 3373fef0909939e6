"""Captured steps of whole models and trainings are the steps themselves."""

from pathlib import Path

import pytest

import minigrad as mg
from minigrad import optim
from minitransformer import GPT, GPTConfig
from tests.slow.capture.runs import Run, as_numpy, assert_same, assert_trained_alike, mlp, training


def gpt():
    return GPT(GPTConfig(11, 8, 8, 2, 2))


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
@pytest.mark.parametrize("make", [mlp, gpt])
def test_replays_match_the_plain_step(make, dtype, device):
    plain = Run(device, make, False, dtype=dtype).go(7)
    captured = Run(device, make, True, dtype=dtype)
    captured.go(7)
    assert captured.step.recordings == 1
    assert_same(plain, captured)


@pytest.mark.parametrize(
    ("adam", "options"),
    [
        (optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
        (optim.SGD, {}),
        (optim.Adam, {"weight_decay": 0.1}),
        (optim.AdamW, {"amsgrad": True}),
        (optim.RMSprop, {"momentum": 0.9, "centered": True, "eps": 0.1}),
        (optim.Adagrad, {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
        (optim.NAdam, {}),
        (optim.RAdam, {"weight_decay": 0.1}),
    ],
)
def test_replays_use_changed_optimizer_settings(adam, options, device):
    runs = [Run(device, mlp, captured, adam, schedule=False, **options) for captured in (False, True)]
    captured = runs[1].step
    for run in runs:
        mg.manual_seed(1)
        run.go(4)
        for group in run.optimizer.param_groups:
            group["lr"] = 0.1
        run.go(2)
    assert captured.recordings == 1
    assert_same(*runs)


def test_loading_an_optimizer_state_records_again(device):
    runs = [Run(device, mlp, captured) for captured in (False, True)]
    for run in runs:
        mg.manual_seed(3)
        run.go(5)
        run.optimizer.load_state_dict(as_numpy(run.optimizer.state_dict()))
        run.go(5)
    assert runs[1].step.recordings == 1
    assert_same(*runs)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("text", {"precision": "bfloat16"}),
        ("text", {"micro_batches": 2}),
        ("text", {"freeze": "embedding.*,*norm*", "micro_batches": 2}),
        ("text", {"lora_rank": 2, "lora_targets": "q,v,linear1"}),
        ("pairs", {"steps": 6}),
    ],
)
def test_captured_training_matches_plain_training(kind, settings, device, tmp_path):
    plain = training(device, tmp_path / "plain", False, kind, **settings)
    assert plain.train()  # False if a signal, such as that of `timeout`, stops it
    captured = training(device, tmp_path / "captured", True, kind, **settings)
    assert captured.train()
    assert_trained_alike(plain, captured)
    if kind == "text":
        assert captured._captured.run_step.recordings
        half = training(device, tmp_path / "half", True, kind, **settings | {"steps": 4})
        assert half.train()
        rest = training(device, tmp_path / "half", True, kind, **settings)
        assert rest.resume()
        assert rest.train()
        assert_trained_alike(plain, rest)


def test_the_command_warns_about_capture_on_a_cpu(cli):
    from tests.tiny import TINY_GPT

    for name, flags in (("plain", []), ("asked", ["--capture"])):
        code, _, err = cli(
            "train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", name, *TINY_GPT, *flags
        )
        assert code == 0, err
        assert err.count("--capture has no effect on a CPU") == (name == "asked")
    first, *others = (
        sorted(Path(name).glob("checkpoints/*/model.safetensors"))[-1] for name in ("plain", "asked")
    )
    assert all(first.read_bytes() == other.read_bytes() for other in others)
