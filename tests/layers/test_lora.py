"""LoRA: adapters start without effect, alone are trained, and can be merged."""

import numpy as np
import pytest

from minigrad.nn import functional as F
from minitransformer import (
    GPT,
    BERTConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    Transformer,
    TransformerConfig,
    generate,
)
from minitransformer.layers.lora import add_lora, merge_lora
from minitransformer.models.bert import BERT

IDS = np.array([[5, 3, 7, 8], [9, 1, 2, 3]])
MODELS = {
    "gpt2": lambda: GPT(GPTConfig(vocab_size=12, n_positions=8, n_embd=8, n_layer=2, n_head=2)),
    "llama": lambda: Llama(
        LlamaConfig(
            vocab_size=12, hidden_size=16, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2,
        )
    ),
    "transformer": lambda: Transformer(TransformerConfig(12, 8, 2, 12, 1, 1)),
}  # fmt: skip
TARGETS = ["q,v", "in_proj", "k", "q,k,v,out_proj,linear1,linear2"]


def logits(model):
    return model(IDS, IDS) if model.is_encoder_decoder else model(IDS)


def moved(model):
    """The model in evaluation mode, with its adapters moved off zero."""
    rng = np.random.default_rng(0)
    for name, p in model.named_parameters():
        if ".lora_B" in name:
            p.array += rng.normal(size=p.shape).astype(np.float32)
    return model.eval()


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_lora_starts_as_identity_and_merges_exactly(name, targets):
    model = MODELS[name]().eval()
    names = [n for n, _ in model.named_parameters()]
    before = logits(model).numpy()
    adapters = add_lora(model, 2, 4.0, targets)
    np.testing.assert_allclose(logits(model).numpy(), before, rtol=0, atol=1e-6)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == set(adapters)

    adapted = logits(moved(model)).numpy()
    assert np.abs(adapted - before).max() > 1e-4
    np.testing.assert_allclose(logits(merge_lora(model)).numpy(), adapted, rtol=0, atol=2e-5)
    assert [n for n, _ in model.named_parameters()] == names
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("targets", TARGETS)
def test_lora_gradients_match_the_merged_weight(targets):
    """dA = alpha/r Bᵀ dW and dB = alpha/r dW Aᵀ, with the gradient dW of the merged weight."""
    model = moved(MODELS["gpt2"]())
    add_lora(model, 2, 4.0, targets)
    moved(model)
    logits(model).square().sum().backward()
    adapters = [m for m in model.modules() if type(m).__name__ == "Adapter"]
    found = [[x.numpy() for x in (a.lora_A, a.lora_B, a.lora_A.grad, a.lora_B.grad)] for a in adapters]
    merge_lora(model)
    model.zero_grad()
    logits(model).square().sum().backward()
    matrices = []
    for layer in model.layers.layers:
        attention = layer.self_attention
        rows = {"q": slice(0, 8), "k": slice(8, 16), "v": slice(16, 24), "in_proj": slice(0, 24)}
        names = targets.split(",")
        matrices += [attention.out_proj.weight.grad.numpy()] if "out_proj" in names else []
        matrices += [attention.in_proj_weight.grad.numpy()[rows[n]] for n in rows if n in names]
        for n in ("linear1", "linear2"):
            matrices += [getattr(layer.feed_forward, n).weight.grad.numpy()] if n in names else []
    assert len(matrices) == len(found)
    for a, b, da, db in found:
        fits = [w for w in matrices if w.shape == (len(b), a.shape[1])]
        of_a = [w for w in fits if np.allclose(2 * b.T @ w, da, atol=2e-3, rtol=1e-3)]
        assert any(np.allclose(2 * w @ a.T, db, atol=2e-3, rtol=1e-3) for w in of_a)


def test_lora_also_trains_the_head():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    model = BERT(BERTConfig(vocab_size=12, **sizes, head="classification"))
    add_lora(model, 2, 4.0)
    trained = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert trained == {"encoder", "head"}
    F.cross_entropy(model(IDS), np.array([0, 1])).backward()
    assert model.embedding.weight.grad is None


def test_generation_with_adapters_uses_the_cache():
    model = MODELS["transformer"]()
    add_lora(model, 2, 4.0, "q,k,v")
    moved(model)
    assert generate(model, [[5, 3]], 6) == generate(model, [[5, 3]], 6, use_cache=False)


@pytest.mark.parametrize("targets", ["x", "in_proj,q", ""])
def test_unknown_lora_targets_are_rejected(targets):
    with pytest.raises(ValueError, match=r"LoRA target|lora_targets"):
        add_lora(MODELS["gpt2"](), 2, 4.0, targets)
    with pytest.raises(ValueError, match="rank"):
        add_lora(MODELS["gpt2"](), 0, 4.0)
