"""`freeze` and LoRA in training: what is frozen stays, has no moments, and a run resumes bit for bit."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import GPT, GPTConfig, TrainConfig, load_pretrained
from minitransformer.cli import main
from minitransformer.pretrained.adapters import load_adapter
from minitransformer.runs.run import Run
from minitransformer.training.freezing import freeze, trained_line
from minitransformer.training.optimizers import build_optimizer

TEXT = "the quick brown fox jumps over the lazy dog. " * 30
SIZES = ["--n-embd", "8", "--n-layer", "2", "--n-head", "2", "--n-positions", "16", "--block-size", "8"]
TRAINING = ["--batch-size", "2", "--validate-every", "2", "--checkpoint-every", "2", "--warmup-steps", "1"]


def model():
    return GPT(GPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2))


@pytest.fixture
def base(tmp_path, monkeypatch):
    """The folder with a text and a short run, `base`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    assert train("base", "--steps", "2") == 0
    return tmp_path


def train(run, *flags):
    sizes = () if "--init-from" in flags or "--resume" in flags else SIZES
    data = () if "--resume" in flags else ("--data", "text.txt")
    return main(["train", "shakespeare-char-cpu", *data, "--run-dir", run, *sizes, *TRAINING, *flags])


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


def test_a_pattern_that_matches_nothing_is_an_error():
    with pytest.raises(ValueError, match=r"freeze = 'embeding\.\*' matches no parameter"):
        freeze(model(), "embeding.*")
    with pytest.raises(ValueError, match="freezes all parameters"):
        freeze(model(), "*")


def test_training_with_frozen_layers_resumes_bit_for_bit(base):
    flags = ["--init-from", "base", "--freeze", "embedding.*,layers.layers.0.*"]
    assert train("whole", *flags, "--steps", "4") == 0
    assert train("parts", *flags, "--steps", "2") == 0
    assert train("parts", "--resume", "--steps", "4") == 0
    before, whole, parts = map(weights, ("base", "whole", "parts"))
    for name, expected in whole.items():
        np.testing.assert_array_equal(parts[name], expected, err_msg=name)
        is_frozen = name.startswith(("embedding.", "layers.layers.0."))
        assert np.array_equal(expected, before[name]) is is_frozen, name


def test_a_run_with_adapters_loads_merged_and_resumes_bit_for_bit(base):
    flags = ["--init-from", "base", "--lora-rank", "2", "--lora-targets", "in_proj,linear1"]
    assert train("whole", *flags, "--steps", "4") == 0
    assert train("parts", *flags, "--steps", "2") == 0
    assert train("parts", "--resume", "--steps", "4") == 0
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


def test_adapters_are_exported_apart(base):
    assert (
        train("tuned", "--init-from", "base", "--lora-rank", "2", "--lora-targets", "in_proj", "--steps", "2")
        == 0
    )
    assert main(["export", "base", "model"]) == 0
    assert main(["export", "tuned", "adapter", "--adapter"]) == 0
    ids = np.array([[1, 2, 3]])
    again = load_adapter(load_pretrained("model"), "adapter")
    expected = Run("tuned", merge=False).model(ids).numpy()
    np.testing.assert_allclose(again(ids).numpy(), expected, rtol=0, atol=1e-6)
    assert main(["export", "base", "nothing", "--adapter"]) == 2
    assert mg.is_grad_enabled()
