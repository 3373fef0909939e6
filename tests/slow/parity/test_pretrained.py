"""Checkpoints that transformers writes, read and written back: logits, gradients, generated texts, weights.

The models are small and random, made when the test runs; every weight is moved off its initial value.
"""

import json
import re
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import minigrad as mg
from minitransformer import ViT, ViTConfig, generate, load_pretrained, save_pretrained
from minitransformer.cli import main
from minitransformer.data.image_processor import ImageProcessor
from minitransformer.pretrained import PretrainedError, PretrainedWarning
from minitransformer.pretrained.family import FAMILIES, family
from minitransformer.pretrained.generation import HARMLESS, NEUTRAL
from minitransformer.pretrained.images import read_processor, write_processor
from minitransformer.pretrained.loading import configure
from minitransformer.runs.run import Run

from .from_transformers import assert_close, assert_same_gradients, transformers

pytestmark = pytest.mark.parity

V = 31
IDS = np.array([[3, 9, 4, 12, 7, 5], [6, 8, 5, 11, 2, 20]])
TARGET = np.array([[3, 5, 9, 4], [3, 8, 21, 5]])
SIZES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 20}  # fmt: skip
BERT_SIZES = {**SIZES, "max_position_embeddings": 12, "pad_token_id": 0}


def gpt2(**options):
    sizes = {"vocab_size": V, "n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 4}
    config = transformers().GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, **options)
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


SIDES = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in
         {"layers": 2, "attention_heads": 4, "ffn_dim": 20}.items()}  # fmt: skip


def bart(**options):
    config = transformers().BartConfig(
        vocab_size=V, d_model=16, max_position_embeddings=32, **SIDES, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, decoder_start_token_id=2, **{"forced_eos_token_id": 2, **options},
    )  # fmt: skip
    return transformers().BartForConditionalGeneration(config)


def marian(**options):
    config = transformers().MarianConfig(
        vocab_size=V, d_model=16, max_position_embeddings=32, **SIDES, eos_token_id=0, scale_embedding=True,
        activation_function="swish",
        **{"forced_eos_token_id": 0, "pad_token_id": V - 1, "decoder_start_token_id": V - 1, **options},
    )  # fmt: skip
    return transformers().MarianMTModel(config)


def vit(**options):
    config = transformers().ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20, image_size=8,
        patch_size=4, num_channels=2, num_labels=3, **options,
    )  # fmt: skip
    return transformers().ViTForImageClassification(config)


LONGER = {"rope_type": "linear", "rope_theta": 50.0, "factor": 3.0}
LLAMA_3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
DECODERS = {
    "gpt2": gpt2,
    "gpt2, untied": lambda: gpt2(tie_word_embeddings=False),
    "gpt2, other widths": lambda: gpt2(n_inner=24, activation_function="relu"),
    "llama": llama,
    "llama, longer": lambda: llama(rope_parameters=LONGER),
    "llama 3.1": lambda: llama(head_dim=8, rope_parameters=LLAMA_3),
    "llama, two ends": lambda: llama(eos_token_id=[1, 14]),
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
    "t5, tied 1.1": lambda: t5(feed_forward_proj="gated-silu"),
    "t5, deeper decoder": lambda: t5(num_decoder_layers=3),
    "bart": bart,
    "bart, forced start": lambda: bart(forced_bos_token_id=0, scale_embedding=True),
    "marian": marian,
    "marian, two vocabularies": lambda: marian(
        share_encoder_decoder_embeddings=False,
        decoder_vocab_size=23,
        pad_token_id=22,
        decoder_start_token_id=22,
    ),
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


IMAGES_GIVEN = np.random.default_rng(0).normal(size=(2, 2, 8, 8)).astype(np.float32)


def their_output(theirs, name):
    import torch

    if name in IMAGES:
        return theirs(pixel_values=torch.tensor(IMAGES_GIVEN)).logits
    ids = torch.tensor(IDS)
    found = theirs(ids, decoder_input_ids=torch.tensor(TARGET)) if name in SEQ2SEQ else theirs(ids)
    if hasattr(found, "start_logits"):
        return torch.stack([found.start_logits, found.end_logits], -1)
    return found.logits


def our_output(ours, name):
    if name in IMAGES:
        return ours(IMAGES_GIVEN)
    found = ours(IDS, TARGET) if name in SEQ2SEQ else ours(IDS)
    return getattr(found, "logits", found)


@pytest.mark.parametrize("name", ALL)
def test_logits_and_gradients_agree_and_export_is_exact(name, make, tmp_path):
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
    save_pretrained(ours, tmp_path / "back")
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    np.testing.assert_array_equal(their_output(again, name).detach().numpy(), expected.detach().numpy())
    written = load_file(tmp_path / "theirs" / "model.safetensors")
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert back.keys() == written.keys()
    for key, value in written.items():
        assert back[key].dtype == value.dtype
        first = 2 if name.startswith("bart") and "embed_positions" in key else 0  # rows that are never read
        np.testing.assert_array_equal(back[key][first:], value[first:], err_msg=key)
    assert_same_gradients(theirs, ours)


OTHER_WORDS = [  # a model, settings of its config.json that are left out, and others
    ("gpt2", "n_head", {"num_attention_heads": 4}),
    ("gpt2", "", {"num_attention_heads": 2}),  # beside n_head = 4
    ("gpt2", "n_embd n_layer n_positions", {"hidden_size": 16, "num_hidden_layers": 2,
                                            "max_position_embeddings": 32}),
    ("distilbert, MaskedLM", "n_heads n_layers dim", {"num_attention_heads": 2, "num_hidden_layers": 2,
                                                      "hidden_size": 16}),
    ("bart", "encoder_attention_heads encoder_layers d_model", {"num_attention_heads": 2, "hidden_size": 16,
                                                                "num_hidden_layers": 2}),
    ("marian", "encoder_attention_heads encoder_layers", {"num_attention_heads": 4, "num_hidden_layers": 2}),
    ("marian", "activation_function scale_embedding", {}),
    ("t5", "num_heads num_layers d_kv d_model", {"num_attention_heads": 4, "num_hidden_layers": 2,
                                                 "head_dim": 6, "hidden_size": 16}),
    ("t5", "", {"dense_act_fn": "gelu_new"}),
    ("t5", "dense_act_fn is_gated_act", {"feed_forward_proj": "gelu_pytorch_tanh"}),
    ("t5 1.1", "", {"dense_act_fn": "gelu"}),
    ("t5 1.1", "", {"dense_act_fn": "swish"}),
    ("t5 1.1", "feed_forward_proj", {}),
    ("t5 1.1", "dense_act_fn is_gated_act", {}),
    ("t5 1.1", "dense_act_fn is_gated_act", {"feed_forward_proj": "gated-gelu_python"}),
    ("llama", "", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("llama, longer", "", {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 90.0}}),
    ("llama 3.1", "", {"rope_scaling": {"rope_type": "default"}, "rope_theta": 70.0}),
    ("llama", "", {"hidden_act": "gelu_pytorch_tanh"}),
    ("bert, MaskedLM", "", {"hidden_act": "swish"}),
    ("distilbert, MaskedLM", "", {"activation": "gelu_python_tanh"}),
    ("vit", "", {"hidden_act": "gelu_fast"}),
    ("bart", "", {"activation_function": "gelu_accurate"}),
    *(("gpt2", "", {"activation_function": name}) for name in [
        "relu", "silu", "swish", "gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_accurate",
        "gelu_pytorch_tanh", "gelu_python_tanh",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "left_out", "settings"), OTHER_WORDS, ids=str)
def test_config_settings_accept_all_names_of_transformers(name, left_out, settings, make, tmp_path):
    theirs = make(name)
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    content = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({k: value for k, value in content.items() if k not in left_out.split()}))
    theirs = type(theirs).from_pretrained(tmp_path / "theirs").eval()
    expected = their_output(theirs, name).detach().numpy()
    ours = load_pretrained(tmp_path / "theirs")
    assert_close(our_output(ours, name).numpy(), expected, 1e-5)
    save_pretrained(ours, tmp_path / "back")
    again = type(theirs).from_pretrained(tmp_path / "back").eval()
    assert_close(their_output(again, name).detach().numpy(), expected, 1e-5)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_config_aliases_match_transformers(model_type, tmp_path):
    theirs = transformers().AutoConfig.for_model(model_type)
    kind = family({"model_type": model_type})
    assert kind.aliases == theirs.attribute_map
    with pytest.warns(PretrainedWarning, match=r"settings not used: mystery$"):  # all others are known
        configure(tmp_path, kind, {**theirs.to_dict(), "mystery": 1})


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("name", TEXTS)
def test_generated_texts_agree(name, num_beams, make, tmp_path):
    import torch

    theirs = make(name)
    if name.startswith("marian"):  # its checkpoints suppress the padding token, which starts a text
        theirs.generation_config.bad_words_ids = [[theirs.config.pad_token_id]]
    theirs.save_pretrained(tmp_path / "theirs")
    expected = theirs.generate(
        torch.tensor(IDS), max_new_tokens=9, num_beams=num_beams, do_sample=False,
        attention_mask=torch.ones(IDS.shape, dtype=torch.long),
        use_cache=name != "t5, deeper decoder",  # the cache of transformers has as many layers as the encoder
    )  # fmt: skip
    start = 1 if name in SEQ2SEQ else IDS.shape[1]
    ours = load_pretrained(tmp_path / "theirs")
    actual = generate(ours, IDS.tolist(), 9, num_beams=num_beams)
    ends = theirs.generation_config.eos_token_id
    assert_same_texts(actual, expected[:, start:].tolist(), ends if isinstance(ends, list) else [ends])


def assert_same_texts(actual, rows, ends):
    for row, ids in zip(rows, actual, strict=True):
        stop = min((i for i, token in enumerate(row) if token in ends), default=len(row))
        assert ids == row[:stop]


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
@pytest.mark.parametrize(
    "options",
    [
        lambda free: {"repetition_penalty": 1.7},
        lambda free: {"no_repeat_ngram_size": 1},
        lambda free: {"min_new_tokens": 5, "eos_token_id": free[0]},
        lambda free: {"min_length": 5, "eos_token_id": free[0]},
        lambda free: {"eos_token_id": free[1]},
        lambda free: {"eos_token_id": [30, *free[1:3]]},
        lambda free: {"suppress_tokens": [free[0], 99]},
        lambda free: {"bad_words_ids": [[free[1]], [free[0]]]},
        lambda free: {"bad_words_ids": [[free[0]], [free[1]]], "eos_token_id": free[1]},
        lambda free: {"bad_words_ids": [free[:2]]},
        lambda free: {"begin_suppress_tokens": free[:1]},
        lambda free: {"forced_bos_token_id": 5},
        lambda free: {"forced_eos_token_id": 6},
        lambda free: {"renormalize_logits": True, "suppress_tokens": free[:2]},
        lambda free: {"sequence_bias": [[free[:1], -9.0]]},
        lambda free: {"encoder_repetition_penalty": 3.0},
        lambda free: {"encoder_no_repeat_ngram_size": 1},
        lambda free: {"exponential_decay_length_penalty": (2, 9.0)},
        lambda free: {"max_length": 5},
        lambda free: {"max_new_tokens": 5},
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_generation_config_is_applied_or_reported(options, name, num_beams, make, tmp_path):
    import torch

    theirs = make(name)
    start = 1 if name in SEQ2SEQ else IDS.shape[1]
    limit = {"max_new_tokens": 9} if name not in SEQ2SEQ else {}
    search = {"num_beams": num_beams, "do_sample": False, "attention_mask": torch.ones(IDS.shape).long()}
    free = theirs.generate(torch_ids(), max_new_tokens=9, **search)[0, start:].tolist()
    chosen = options(free)
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "generation_config.json"
    content = {"max_length": 10, **json.loads(path.read_text()), **chosen}
    path.write_text(json.dumps(content))
    theirs = type(theirs).from_pretrained(tmp_path / "theirs").eval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PretrainedWarning)
        ours = load_pretrained(tmp_path / "theirs")
    named = " ".join(str(each.message) for each in caught)
    if any(key in named for key in chosen):
        return
    expected = theirs.generate(torch_ids(), **search, **limit)[:, start:].tolist()
    ends = theirs.generation_config.eos_token_id
    actual = generate(ours, IDS.tolist(), 9, num_beams=num_beams)
    assert_same_texts(actual, expected, ends if isinstance(ends, list) else [ends])


def test_every_key_of_generation_config_is_known():
    from transformers import GenerationConfig

    assert set(GenerationConfig().to_dict()) <= HARMLESS | NEUTRAL.keys()
    defaults = GenerationConfig._get_default_generation_params()
    assert {key: NEUTRAL[key] for key in defaults.keys() - HARMLESS} == {
        key: value for key, value in defaults.items() if key not in HARMLESS
    }


EACH = pytest.mark.parametrize(
    "name", ["gpt2", "llama", "t5 1.1", "bart", "marian", "marian, two vocabularies", "vit", "bert, MaskedLM",
             "distilbert, SequenceClassification"],
)  # fmt: skip


@EACH
def test_shards_are_read(name, make, tmp_path):
    theirs = make(name)
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="2KB")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 2
    actual = our_output(load_pretrained(tmp_path / "theirs"), name)
    assert_close(actual.numpy(), their_output(theirs, name).detach().numpy(), 1e-5)


@EACH
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32_and_written_back(name, dtype, make, tmp_path):
    import torch
    from safetensors.torch import load_file

    make(name).to(getattr(torch, dtype)).save_pretrained(tmp_path / "theirs")
    theirs = type(make(name)).from_pretrained(tmp_path / "theirs", dtype=torch.float32)
    actual = our_output(load_pretrained(tmp_path / "theirs"), name)
    assert_close(actual.numpy(), their_output(theirs, name).detach().numpy(), 1e-5)

    save_pretrained(load_pretrained(tmp_path / "theirs", dtype="auto"), tmp_path / "back")
    written, back = (load_file(tmp_path / each / "model.safetensors") for each in ("theirs", "back"))
    assert back.keys() == written.keys()
    for key, value in written.items():
        first = 2 if name == "bart" and "embed_positions" in key else 0  # rows that are never read
        assert back[key].dtype == getattr(torch, dtype)
        assert torch.equal(back[key][first:], value[first:]), key


@EACH
def test_a_missing_tensor_is_named_and_an_extra_one_in_a_warning(name, make, tmp_path):
    make(name).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    save_file({**tensors, "extra.weight": np.zeros(2, np.float32)}, path)
    with pytest.warns(PretrainedWarning, match=r"not used.*: extra\.weight$"):
        load_pretrained(tmp_path / "theirs")
    for missing in tensors:
        save_file({key: value for key, value in tensors.items() if key != missing}, path)
        with pytest.raises(PretrainedError, match=f"lacks 1 tensor .*: {re.escape(missing)}\\."):
            load_pretrained(tmp_path / "theirs")


@pytest.mark.parametrize(
    "name", ["gpt2", "llama, tied, wide heads", "bert, MaskedLM", "distilbert, MaskedLM"]
)
def test_base_model_weights_are_loaded_without_a_prefix(name, make, tmp_path):
    theirs = make(name)
    theirs.base_model.save_pretrained(tmp_path / "body")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", PretrainedWarning
        )  # the weights of a pooling layer, which a sentence encoder lacks
        ours = load_pretrained(tmp_path / "body")
    states = theirs.base_model(torch_ids()).last_hidden_state
    assert_close(ours.states(IDS).numpy(), states.detach().numpy(), 1e-5)


@pytest.mark.parametrize("name", ["bart", "marian"])
def test_a_body_without_final_logits_bias_has_a_bias_of_zero(name, make, tmp_path):
    theirs = make(name)
    theirs.final_logits_bias.zero_()
    theirs.model.save_pretrained(tmp_path / "body")
    actual = our_output(load_pretrained(tmp_path / "body"), name)
    assert_close(actual.numpy(), their_output(theirs, name).detach().numpy(), 1e-5)
    halves = load_pretrained(tmp_path / "body", dtype="float16").state_dict().values()
    assert {tensor.dtype for tensor in halves} == {mg.float16}


def test_loading_a_bare_t5_encoder_raises(make, tmp_path):
    transformers().T5EncoderModel(make("t5").config).save_pretrained(tmp_path / "encoder")
    with pytest.raises(PretrainedError, match="has a T5EncoderModel that lacks 28 tensors of a T5"):
        load_pretrained(tmp_path / "encoder")


def torch_ids():
    import torch

    return torch.tensor(IDS)


def test_names_of_parameters_in_transformers_5_are_read(make, tmp_path):
    """Its files have the older names; a state_dict has the newer ones."""
    theirs = make("vit")
    theirs.save_pretrained(tmp_path / "theirs")
    tensors = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    assert "vit.layers.0.attention.q_proj.weight" in tensors
    save_file(tensors, tmp_path / "theirs" / "model.safetensors")
    actual = our_output(load_pretrained(tmp_path / "theirs"), "vit")
    assert_close(actual.numpy(), their_output(theirs, "vit").detach().numpy(), 1e-5)


BIASED = {"activation": "silu", "output_bias": True}


@pytest.mark.parametrize("options", [{}, {"target_vocab_size": 23}, BIASED])
def test_the_original_transformer_exports_as_marian(options, tmp_path):
    """Its sines and cosines alternate; exported, the places of the width are exchanged."""
    import torch

    from minitransformer import Transformer, TransformerConfig

    config = TransformerConfig(V, 16, 4, 20, 2, 2, pad_token_id=0, bos_token_id=2, eos_token_id=3, **options)
    ours = Transformer(config).eval()
    rng = np.random.default_rng(0)
    for p in ours.parameters():
        p.array += (0.2 * rng.normal(size=p.shape)).astype(np.float32)
    save_pretrained(ours, tmp_path / "marian")
    theirs = transformers().MarianMTModel.from_pretrained(tmp_path / "marian").eval()
    source, target = torch.tensor(IDS), torch.tensor(TARGET)
    expected = theirs(source, decoder_input_ids=target).logits.detach().numpy()
    assert_close(ours(IDS, TARGET).numpy(), expected, 1e-5)
    texts = theirs.generate(source, max_new_tokens=8, num_beams=1, do_sample=False).numpy()[:, 1:].tolist()
    cut = [row[: row.index(3)] if 3 in row else row for row in texts]
    assert generate(ours, IDS.tolist(), 8) == cut


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"resample": 3, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
        {"do_normalize": False},
        {"do_rescale": False},
    ],
    ids=str,
)
def test_image_preprocessing_matches_transformers(name, options, tmp_path):
    from PIL import Image
    from transformers import AutoImageProcessor, ViTImageProcessorPil

    ViTImageProcessorPil(size={"height": 24, "width": 24}, **options).save_pretrained(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    Image.fromarray(np.kron(pixels, np.ones((9, 8, 1), np.uint8))).save(tmp_path / name)
    processor = read_processor(tmp_path, ViTConfig(image_size=24, patch_size=4))
    theirs = AutoImageProcessor.from_pretrained(tmp_path)
    expected = theirs(Image.open(tmp_path / name), return_tensors="np")["pixel_values"]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(processor.read_image(tmp_path / name)[None], expected, atol=1e-6 * scale)

    write_processor(tmp_path, processor)
    again = AutoImageProcessor.from_pretrained(tmp_path)
    found = again(Image.open(tmp_path / name), return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale)


def test_a_fine_tuned_vit_and_its_export_agree_on_images(tmp_path):
    import torch
    from PIL import Image
    from transformers import AutoImageProcessor, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=8,
        patch_size=4, num_labels=2, initializer_range=0.5,
    )  # fmt: skip
    processor = ImageProcessor((8, 8), 2, 1 / 255, [0.5] * 3, [0.5] * 3)
    save_pretrained(ViT(config), tmp_path / "hub", image_processor=processor)
    images = np.random.default_rng(0).integers(0, 190, (12, 8, 8, 3)).astype(np.uint8)
    np.savez(tmp_path / "mine.npz", images=images, labels=np.arange(12) % 2)
    Image.fromarray(images[3]).save(tmp_path / "one.png")
    hub, run, data = (str(tmp_path / name) for name in ("hub", "run", "mine.npz"))
    assert main(["import", hub, "--run-dir", f"{run}0"]) == 0
    start = ["train", "digits-vit", "--data", data, "--init-from", f"{run}0", "--run-dir", run]
    assert main([*start, "--steps", "2", "--warmup-steps", "1"]) == 0
    assert main(["export", run, f"{hub}1"]) == 0

    trained = Run(run)
    example = trained.task.read(trained, [str(tmp_path / "one.png")])
    np.testing.assert_array_equal(example[0], images[3].transpose(2, 0, 1) / np.float32(images.max()))
    (logits,) = trained.task.of_run(trained, []).rows_of_logits(trained.model, [example])
    theirs = ViTForImageClassification.from_pretrained(f"{hub}1").eval()
    picture = Image.open(tmp_path / "one.png")
    pixels = AutoImageProcessor.from_pretrained(f"{hub}1")(picture, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        assert_close(logits, theirs(pixels).logits[0].numpy(), 1e-5)
