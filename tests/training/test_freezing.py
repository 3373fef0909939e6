"""`freeze` and LoRA in training: what is frozen stays, has no moments, and a run resumes bit for bit."""

import shutil

import numpy as np
import pytest

from minitransformer import GPT, GPTConfig, TrainConfig, load_pretrained
from minitransformer.cli import main
from minitransformer.pretrained.adapters import load_adapter
from minitransformer.runs.run import Run
from minitransformer.training.freezing import freeze, trained_line
from minitransformer.training.optimizers import build_optimizer
from tests.tiny import TINY_BERT
from tests.training.test_trainer import language

TEXT = "the quick brown fox jumps over the lazy dog. " * 30
SIZES = ["--n-embd", "8", "--n-layer", "2", "--n-head", "2", "--n-positions", "16", "--block-size", "8"]
TRAINING = ["--batch-size", "2", "--validate-every", "2", "--checkpoint-every", "2", "--warmup-steps", "1"]


def model():
    return GPT(GPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a text and a short run, `base`."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert train("base", "--steps", "2") == 0
    return folder


@pytest.fixture
def base(trained, tmp_path, monkeypatch):
    """A copy of that folder, to work in."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


def train(run, *flags):
    sizes = () if "--init-from" in flags or "--resume" in flags else SIZES
    data = () if "--resume" in flags else ("--data", "text.txt")
    return main(["train", "shakespeare-char-cpu", *data, "--run-dir", run, *sizes, *TRAINING, *flags])


def train_whole_and_in_parts(*flags):
    """Train a run, `whole`, and the same with a stop in the middle, `parts`."""
    assert train("whole", *flags, "--steps", "4") == 0
    assert train("parts", *flags, "--steps", "2") == 0
    assert train("parts", "--resume", "--steps", "4") == 0


def weights(run, **options):
    return {name: t.numpy() for name, t in Run(run, "last", **options).model.state_dict().items()}


def test_frozen_parameters_have_no_gradient_and_no_moments():
    net = model()
    frozen = freeze(net, "embedding.*, layers.layers.0.*")
    assert set(frozen) == {n for n, p in net.named_parameters() if not p.requires_grad}
    assert all(n.startswith(("embedding.", "layers.layers.0.")) for n in frozen)
    optimizer = build_optimizer(net, TrainConfig())
    net(np.array([[1, 2, 3]])).sum().backward()
    optimizer.step()
    held = sum(p.array.size for group in optimizer.param_groups for p in group["params"])
    assert f"{held:,} of" in trained_line(net)
    assert all(p.grad is None for n, p in net.named_parameters() if n in frozen)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("embeding.*", r"freeze = 'embeding\.\*' matches no parameter.*Did you mean embedding\?"),
        ("layer.layers.0.*", r"Did you mean layers\.layers\.0 or"),
        ("*", "freezes all parameters"),
    ],
)
def test_freeze_patterns_matching_nothing_or_all_are_errors(pattern, message):
    with pytest.raises(ValueError, match=message):
        freeze(model(), pattern)


@pytest.mark.slow
def test_training_with_frozen_layers_resumes_bit_for_bit(base):
    train_whole_and_in_parts("--init-from", "base", "--freeze", "embedding.*,layers.layers.0.*")
    before, whole, parts = map(weights, ("base", "whole", "parts"))
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, err_msg=name)
        is_frozen = name.startswith(("embedding.", "layers.layers.0."))
        assert np.array_equal(expected, before[name]) is is_frozen, name


@pytest.mark.slow
def test_adapters_resume_bit_for_bit_and_load_merged(base):
    train_whole_and_in_parts("--init-from", "base", "--lora-rank", "2", "--lora-targets", "in_proj,linear1")
    whole, parts = weights("whole", merge=False), weights("parts", merge=False)
    assert any(".lora_A" in name for name in whole)
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, err_msg=name)
    ids = np.array([[1, 2, 3]])
    apart = Run("whole", "last", merge=False).model(ids).numpy()
    merged = Run("whole", "last")
    np.testing.assert_allclose(merged.model(ids).numpy(), apart, rtol=0, atol=1e-5)
    assert not any(".lora_" in name for name in merged.model.state_dict())
    before, after = weights("base"), weights("whole")
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {f"layers.layers.{i}.{n}" for i in (0, 1) for n in
                       ("self_attention.in_proj_weight", "feed_forward.linear1.weight")}  # fmt: skip
    assert main(["generate", "whole", "--prompt", "the", "--max-new-tokens", "3"]) == 0


@pytest.mark.slow
def test_adapters_can_be_exported_separately(base, capsys):
    lora = ["--lora-rank", "2", "--lora-targets", "in_proj"]
    assert train("tuned", "--init-from", "base", *lora, "--steps", "2") == 0
    assert main(["export", "base", "model"]) == 0
    assert main(["export", "tuned", "adapter", "--adapter"]) == 0
    ids = np.array([[1, 2, 3]])
    again = load_adapter(load_pretrained("model"), "adapter")
    expected = Run("tuned", merge=False).model(ids).numpy()
    np.testing.assert_allclose(again(ids).numpy(), expected, rtol=0, atol=1e-6)
    assert "the head" not in capsys.readouterr().err
    assert main(["export", "base", "nothing", "--adapter"]) == 2


PARTS = {"frozen": {"freeze": "embedding.*"}, "adapters": {"lora_rank": 2, "lora_targets": "q,v,linear1"}}


@pytest.mark.parametrize("settings", PARTS.values(), ids=PARTS)
def test_micro_batches_and_step_runners_do_not_change_training(settings, tmp_path):
    trained = []
    ways = ({}, {"micro_batches": 2}, {"step_runner": lambda step: step})
    for i, options in enumerate(ways):
        trainer = language(tmp_path / str(i), 0.0, steps=4, warmup_steps=1, **settings, **options)
        start = {name: p.numpy().copy() for name, p in trainer.model.named_parameters()}
        trainer.train()
        end = {name: p.numpy() for name, p in trainer.model.named_parameters()}
        for name, p in trainer.model.named_parameters():
            if "in_proj_bias" not in name:  # keys' biases have no gradient but rounding
                assert np.array_equal(start[name], end[name]) is not p.requires_grad, name
        trained.append(trainer.model(np.arange(8)[None] % 5).numpy())
    np.testing.assert_allclose(trained[1], trained[0], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(trained[2], trained[0])


@pytest.mark.slow
def test_resume_rejects_changed_freeze_and_lora_settings(base, capsys):
    assert train("tuned", "--init-from", "base", "--lora-rank", "2", "--steps", "2") == 0
    for flags in ("--freeze embedding.*", "--lora-rank 3", "--lora-alpha 64", "--lora-targets k"):
        flag, value = flags.split()
        assert train("tuned", "--resume", "--steps", "4", flag, value) == 2
        name = flag[2:].replace("-", "_")
        assert f"started with different settings: {name} is" in capsys.readouterr().err


def test_lora_settings_require_lora_rank(base, capsys):
    assert train("tuned", "--init-from", "base", "--lora-alpha", "64") == 2
    assert "--lora-alpha 64.0 has no effect without adapters.\nAdd --lora-rank 8" in capsys.readouterr().err


@pytest.mark.slow
def test_init_from_merges_adapters_and_lists_settings(base, capsys):
    assert train("tuned", "--init-from", "base", "--lora-rank", "2", "--lr", "0.1", "--steps", "2") == 0
    assert "settings from base: n_positions 16, n_embd 8, n_layer 2, n_head 2" in capsys.readouterr().err
    assert train("after", "--init-from", "tuned", "--lr", "0", "--steps", "1") == 0
    err = capsys.readouterr().err
    assert "not used" not in err
    assert "settings from tuned: n_positions 16" in err
    tuned = {name: t.numpy() for name, t in Run("tuned").model.state_dict().items()}
    after = weights("after")
    assert tuned.keys() == after.keys()
    for name, expected in tuned.items():
        np.testing.assert_array_equal(after[name], expected, err_msg=name)
    assert any(not np.array_equal(tuned[name], value) for name, value in weights("base").items())


@pytest.mark.slow
def test_exporting_adapters_without_the_trained_head_warns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "bert-classify", "--run-dir", "tuned", "--lora-rank", "2", *TINY_BERT]) == 0
    assert main(["export", "tuned", "adapter", "--adapter"]) == 0
    assert "the head was trained too, and is not among the adapters" in capsys.readouterr().err
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()
