"""Fine-tuning as peft and PyTorch do it: 20 steps of AdamW with adapters, and with frozen layers.

In float64: AdamW divides the gradients of the keys' biases, which are zero but for rounding, by themselves.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import load_pretrained
from minitransformer.layers.lora import add_lora
from minitransformer.pretrained.adapters import load_adapter, save_adapter
from minitransformer.pretrained.family import family
from minitransformer.pretrained.saving import their_tensors
from minitransformer.tasks.language_modelling import score_text
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.training.freezing import freeze

from .test_pretrained import IDS, V, bert, gpt2, moved

pytestmark = pytest.mark.parity
STEPS = 20
LABELS = np.array([1, 0])


def no_dropout(kind):
    names = {
        "gpt2": ("embd_pdrop", "resid_pdrop", "attn_pdrop"),
        "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"),
    }
    return dict.fromkeys(names[kind], 0.0)


MODELS = {
    "gpt2": lambda: gpt2(**no_dropout("gpt2")),
    "bert": lambda: bert("SequenceClassification", num_labels=2, **no_dropout("bert")),
}


def pair(name, folder, dtype="float32"):
    theirs = moved(MODELS[name]())
    theirs.save_pretrained(folder)
    return load_pretrained(folder, dtype=dtype), theirs.double() if dtype == "float64" else theirs


def our_loss(model, name):
    if name == "bert":
        return F.cross_entropy(model(IDS), LABELS)
    return F.cross_entropy(model(IDS[:, :-1]).reshape(-1, V), IDS[:, 1:].ravel())


def their_loss(model, name):
    import torch

    ids = torch.tensor(IDS)
    if name == "bert":
        return model(ids, labels=torch.tensor(LABELS)).loss
    logits = model(ids[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))


def train_both(ours, theirs, name):
    """The losses of both in 20 steps, on the parameters that require gradients."""
    import torch

    settings = {"lr": 0.01, "weight_decay": 0.1, "betas": (0.9, 0.98)}
    own = mg.optim.AdamW([p for p in ours.parameters() if p.requires_grad], eps=1e-6, **settings)
    other = torch.optim.AdamW([p for p in theirs.parameters() if p.requires_grad], eps=1e-6, **settings)
    losses = []
    for _ in range(STEPS):
        a, b = our_loss(ours, name), their_loss(theirs, name)
        for optimizer, loss in ((own, a), (other, b)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append((a.item(), b.item()))
    return np.array(losses).T


def peft():
    return pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[parity]'")


def settings_of_peft(name, rank=2, alpha=4):
    modules = {"gpt2": ["c_attn"], "bert": ["query", "value"]}[name]
    options = {"fan_in_fan_out": name == "gpt2"}
    if name == "bert":
        options["task_type"] = "SEQ_CLS"  # this trains the classifier, too
    return peft().LoraConfig(r=rank, lora_alpha=alpha, target_modules=modules, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_20_steps_with_adapters_match_peft(name, tmp_path):
    import torch

    ours, theirs = pair(name, tmp_path / "base", "float64")
    theirs = peft().get_peft_model(theirs, settings_of_peft(name))
    add_lora(ours, 2, 4, {"gpt2": "in_proj", "bert": "q,v"}[name])
    if name == "bert":  # peft trains the classifier, we the pooler too
        ours.head.pooler.requires_grad_(False)
    adapters = {n: p for n, p in theirs.named_parameters() if "lora_" in n}
    folder = tmp_path / "adapter"
    save_adapter(ours, folder)
    from safetensors.numpy import load_file

    written = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():  # the same random start
        for n, p in adapters.items():
            p.copy_(torch.tensor(written[n.replace(".default", "")]))
    losses = train_both(ours, theirs, name)
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-5)
    assert losses[0, -1] < losses[0, 0]

    save_adapter(ours, tmp_path / "trained")
    trained = load_file(tmp_path / "trained" / "adapter_model.safetensors")
    assert trained.keys() == {n.replace(".default", "") for n in adapters}
    for n, p in adapters.items():
        np.testing.assert_allclose(trained[n.replace(".default", "")], p.detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_adapters_round_trip_through_peft(name, tmp_path):
    import torch

    ours, theirs = pair(name, tmp_path / "base")
    add_lora(ours, 3, 6, {"gpt2": "in_proj,out_proj,linear1", "bert": "q,v,linear2"}[name])
    rng = np.random.default_rng(0)
    for n, p in ours.named_parameters():
        if ".lora_B" in n:
            p.array += rng.normal(size=p.shape).astype(np.float32)
    save_adapter(ours, tmp_path / "adapter", base=str(tmp_path / "base"))
    loaded = peft().PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    ids = torch.tensor(IDS)
    np.testing.assert_allclose(ours(IDS).numpy(), loaded(ids).logits.detach().numpy(), rtol=0, atol=1e-4)
    loaded.save_pretrained(tmp_path / "back")
    again = load_adapter(load_pretrained(tmp_path / "base"), tmp_path / "back")
    np.testing.assert_allclose(again(IDS).numpy(), ours(IDS).numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_20_steps_with_frozen_layers_match_pytorch(name, tmp_path):
    ours, theirs = pair(name, tmp_path / "base", "float64")
    freeze(
        ours,
        {"gpt2": "embedding.*,positions.*,layers.layers.0.*", "bert": "embedding.*,encoder.layers.0.*"}[name],
    )
    frozen = {"gpt2": ("transformer.wte", "transformer.wpe", "transformer.h.0."),
              "bert": ("bert.embeddings.word_embeddings", "bert.encoder.layer.0.")}[name]  # fmt: skip
    before = {n: p.detach().clone() for n, p in theirs.named_parameters()}
    for n, p in theirs.named_parameters():
        p.requires_grad_(not n.startswith(frozen))
    losses = train_both(ours, theirs, name)
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-5)
    kind = family(json.loads((Path(tmp_path) / "base" / "config.json").read_text()))
    weights = their_tensors(ours, kind, ours.state_dict())
    for n, p in theirs.named_parameters():
        np.testing.assert_allclose(weights[n], p.detach().numpy(), rtol=0, atol=1e-5, err_msg=n)
        if n.startswith(frozen):
            np.testing.assert_array_equal(weights[n], before[n].numpy())


@pytest.mark.parametrize("stride", [1, 7, 31])
def test_perplexity_with_a_stride_matches_transformers(stride, tmp_path):
    """The loop of its page "Perplexity of fixed-length models"; each loss counts for the tokens it is of."""
    import torch

    ours, theirs = pair("gpt2", tmp_path / "base")
    theirs.eval()
    ids = np.random.default_rng(0).integers(0, V, 100)
    window = theirs.config.n_positions
    losses, counts = [], []
    scored = 0
    for start in range(0, len(ids), stride):
        end = min(start + window, len(ids))
        inputs = torch.tensor(ids[None, start:end])
        labels = inputs.clone()
        labels[:, : -(end - scored)] = -100
        with torch.no_grad():
            losses.append(theirs(inputs, labels=labels).loss.item())
        counts.append((labels[:, 1:] != -100).sum().item())
        scored = end
        if end == len(ids):
            break
    assert sum(counts) == len(ids) - 1
    tokenizer = Tokenizer.train_char(["".join(map(chr, range(65, 65 + V)))])
    found = score_text(ours.eval(), tokenizer, ids, window, 2, stride)["loss"]
    assert float(found) == pytest.approx(np.average(losses, weights=counts), abs=1e-5)
