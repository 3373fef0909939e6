"""Checkpoints that transformers writes, read and written back: logits, gradients, generated texts, weights.

The models are small and random, made when the test runs; every weight is moved off its initial value.
"""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import minigrad as mg
from minitransformer import generate, load_pretrained, save_pretrained
from minitransformer.pretrained.family import family
from minitransformer.pretrained.saving import their_tensors

from .from_transformers import transformers

pytestmark = pytest.mark.parity

V = 31
IDS = np.array([[3, 9, 4, 12, 7, 5], [6, 8, 5, 11, 2, 20]])
TARGET = np.array([[3, 5, 9, 4], [3, 8, 21, 5]])
SIZES = {
    "vocab_size": V,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 20,
}
BERT_SIZES = {**SIZES, "max_position_embeddings": 12, "pad_token_id": 0}


def gpt2(**options):
    config = transformers().GPT2Config(
        vocab_size=V,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=4,
        bos_token_id=1,
        eos_token_id=1,
        **options,
    )
    return transformers().GPT2LMHeadModel(config)


def llama(**options):
    config = transformers().LlamaConfig(
        **SIZES, **{"num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 1, **options}
    )
    return transformers().LlamaForCausalLM(config)


def bert(head, **options):
    config = transformers().BertConfig(**BERT_SIZES, **options)
    return getattr(transformers(), f"BertFor{head}")(config)


def distilbert(head, **options):
    config = transformers().DistilBertConfig(
        vocab_size=V, dim=16, n_layers=2, n_heads=4, hidden_dim=20, max_position_embeddings=12,
        pad_token_id=0, **options,
    )  # fmt: skip
    return getattr(transformers(), f"DistilBertFor{head}")(config)


def t5(**options):
    config = transformers().T5Config(
        vocab_size=V, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=4,
        relative_attention_num_buckets=8, relative_attention_max_distance=16, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0, **options,
    )  # fmt: skip
    return transformers().T5ForConditionalGeneration(config)


def bart(**options):
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in
             {"layers": 2, "attention_heads": 4, "ffn_dim": 20}.items()}  # fmt: skip
    config = transformers().BartConfig(
        vocab_size=V, d_model=16, max_position_embeddings=32, **sizes, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, decoder_start_token_id=2, **{"forced_eos_token_id": 2, **options},
    )  # fmt: skip
    return transformers().BartForConditionalGeneration(config)


def marian(**options):
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in
             {"layers": 2, "attention_heads": 4, "ffn_dim": 20}.items()}  # fmt: skip
    config = transformers().MarianConfig(
        vocab_size=V, d_model=16, max_position_embeddings=32, **sizes, pad_token_id=V - 1, eos_token_id=0,
        decoder_start_token_id=V - 1, scale_embedding=True, activation_function="swish",
        **{"forced_eos_token_id": 0, **options},
    )  # fmt: skip
    return transformers().MarianMTModel(config)


def vit(**options):
    config = transformers().ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20, image_size=8,
        patch_size=4, num_channels=2, num_labels=3, **options,
    )  # fmt: skip
    return transformers().ViTForImageClassification(config)


FORCED = ("forced_bos_token_id", "forced_eos_token_id")
DECODERS = {
    "gpt2": gpt2,
    "gpt2, untied": lambda: gpt2(tie_word_embeddings=False),
    "gpt2, other widths": lambda: gpt2(n_inner=24, activation_function="relu"),
    "llama": llama,
    "llama, tied, wide heads": lambda: llama(tie_word_embeddings=True, head_dim=6, rope_theta=50.0),
}
ENCODERS = {
    f"{name}, {head}": (lambda make=make, head=head, options=options: make(head, **options))
    for name, make in (("bert", bert), ("distilbert", distilbert))
    for head, options in {
        "MaskedLM": {}, "SequenceClassification": {"num_labels": 3}, "TokenClassification": {"num_labels": 3},
        "QuestionAnswering": {},
    }.items()
}  # fmt: skip
ENCODERS["bert, NextSentencePrediction"] = lambda: bert("NextSentencePrediction")
SEQ2SEQ = {
    "t5": t5,
    "t5 1.1": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "t5, deeper decoder": lambda: t5(num_decoder_layers=3),
    "bart": bart,
    "bart, forced start": lambda: bart(forced_bos_token_id=0, scale_embedding=True),
    "marian": marian,
}
IMAGES = {"vit": vit, "vit without biases": lambda: vit(qkv_bias=False)}
TEXTS = {**DECODERS, **SEQ2SEQ}
ALL = {**TEXTS, **ENCODERS, **IMAGES}


def moved(model):
    """The model in evaluation mode, with every weight moved off its initial value."""
    import torch

    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # but for Marian's positions
                p += 0.2 * torch.randn_like(p)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer += torch.randn_like(buffer)
    return model.eval()


@pytest.fixture
def make():
    return lambda name: moved(ALL[name]())


def their_output(theirs, name):
    import torch

    if name in IMAGES:
        images = np.random.default_rng(0).normal(size=(2, 2, 8, 8)).astype(np.float32)
        return theirs(pixel_values=torch.tensor(images)).logits
    ids = torch.tensor(IDS)
    found = theirs(ids, decoder_input_ids=torch.tensor(TARGET)) if name in SEQ2SEQ else theirs(ids)
    if hasattr(found, "start_logits"):
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found.logits


def our_output(ours, name):
    if name in IMAGES:
        images = np.random.default_rng(0).normal(size=(2, 2, 8, 8)).astype(np.float32)
        return ours(images)
    found = ours(IDS, TARGET) if name in SEQ2SEQ else ours(IDS)
    return getattr(found, "logits", found)


def assert_close(actual, expected, tolerance, where=""):
    """Equal to the tolerance, relative to the largest element where that is above 1."""
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance, err_msg=where)


@pytest.mark.parametrize("name", ALL)
def test_logits_and_gradients_agree_and_the_way_back_is_exact(name, make, tmp_path):
    import torch

    theirs = make(name)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_pretrained(tmp_path / "theirs")
    expected = their_output(theirs, name)
    logits = our_output(ours, name)
    assert_close(logits.numpy(), expected.detach().numpy(), 1e-5)

    weights = np.random.default_rng(1).normal(size=expected.shape).astype(np.float32)
    (logits * mg.tensor(weights)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    assert_same_gradients(ours, theirs, tmp_path)

    save_pretrained(ours, tmp_path / "back")
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    np.testing.assert_array_equal(their_output(again, name).detach().numpy(), expected.detach().numpy())
    written = load_file(tmp_path / "theirs" / "model.safetensors")
    back = load_file(tmp_path / "back" / "model.safetensors")
    for key, value in written.items():
        first = 2 if name.startswith("bart") and "embed_positions" in key else 0  # rows that are never read
        np.testing.assert_array_equal(back[key][first:], value[first:], err_msg=key)


def assert_same_gradients(ours, theirs, folder):
    """All gradients, compared under the names of the files. Those of transformers replace its weights."""
    import torch

    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.zeros_like(p) if p.grad is None else p.grad)
    theirs.save_pretrained(folder / "gradients")
    expected = load_file(folder / "gradients" / "model.safetensors")
    kind = family(json.loads((folder / "theirs" / "config.json").read_text()))
    own = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    actual = their_tensors(ours, kind, own)
    actual.pop("final_logits_bias", None)  # transformers does not train it
    assert len(actual) >= len(expected) - 2
    for name, gradient in actual.items():
        assert_close(gradient, expected[name], 1e-4, name)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("name", TEXTS)
def test_generated_texts_agree(name, num_beams, make, tmp_path):
    import torch

    theirs = make(name)
    theirs.save_pretrained(tmp_path / "theirs")
    expected = theirs.generate(
        torch.tensor(IDS), max_new_tokens=9, num_beams=num_beams, do_sample=False,
        attention_mask=torch.ones(IDS.shape, dtype=torch.long),
        use_cache=name != "t5, deeper decoder",  # the cache of transformers has as many layers as the encoder
    )  # fmt: skip
    start = 1 if name in SEQ2SEQ else IDS.shape[1]
    expected = expected[:, start:].numpy()
    ours = load_pretrained(tmp_path / "theirs")
    forced = {key: getattr(theirs.generation_config, key, None) for key in FORCED}
    actual = generate(ours, IDS.tolist(), 9, num_beams=num_beams, **forced)
    ends = theirs.generation_config.eos_token_id
    for row, ids in zip(expected, actual, strict=True):
        row = row.tolist()
        row = row[: row.index(ends)] if ends in row else row
        assert ids == row
