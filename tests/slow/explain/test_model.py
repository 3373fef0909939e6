"""The page's model beside the engine, for every family of models."""

# ruff: noqa: F811 (a fixture that is imported)

import base64

import numpy as np
import pytest

import minigrad as mg
from minitransformer import generate
from minitransformer.explain import Switches, record
from tests.explain.test_model import (
    GPT,
    TRANSFORMER,
    load,
    make,
    page,  # noqa: F401 (a fixture)
)


def ids(length, seed=0, vocab_size=11):
    return np.random.default_rng(seed).integers(4, vocab_size, length).tolist()


def unpacked(found):
    return {
        name: np.frombuffer(base64.b64decode(array["data"]), "<f4").reshape(array["shape"])
        for name, array in found.items()
    }


def assert_close(found, expected, tolerance):
    """Arrays by name, relative to the scale of each; of tiny ones, to a hundredth of the largest scale.

    (What is tiny beside the others is what is left of large terms, in float32.)
    """
    assert list(found) == list(expected)
    finite = {name: array[np.isfinite(array)] for name, array in expected.items()}
    scales = {name: np.abs(numbers).max(initial=0) for name, numbers in finite.items()}
    least = max(scales.values()) / 100
    for name, array in expected.items():
        real = np.isfinite(array)
        assert found[name].shape == array.shape, name
        assert (found[name][~real] == array[~real]).all(), name
        difference = np.abs(found[name][real] - finite[name]).max(initial=0)
        assert difference <= tolerance * max(scales[name], least), name


LLAMA = {
    "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}  # fmt: skip


LLAMA3 = LLAMA | {
    "rope_type": "llama3", "rope_factor": 8.0, "original_max_position_embeddings": 10, "rope_theta": 10.0,
    "head_dim": 6,
}  # fmt: skip

MARIAN = TRANSFORMER | {"positions": "sinusoidal_halves", "activation": "silu", "output_bias": True}


T5 = {
    "vocab_size": 11, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_layers": 2, "num_heads": 2,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
}  # fmt: skip


BERT = {
    "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 12, "max_position_embeddings": 9,
}  # fmt: skip


BART = {
    "vocab_size": 11, "max_position_embeddings": 9, "d_model": 8, "encoder_layers": 1, "encoder_ffn_dim": 12,
    "encoder_attention_heads": 2, "decoder_layers": 2, "decoder_ffn_dim": 5, "decoder_attention_heads": 4,
}  # fmt: skip


VIT = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "image_size": 6, "patch_size": 3, "num_channels": 2, "num_labels": 3,
}  # fmt: skip


RECURRENT = {"vocab_size": 11, "embedding_dim": 8, "hidden_size": 8, "num_layers": 2}


RECORDED = {  # each option of each family occurs
    "the paper's": ("transformer", TRANSFORMER, {}),
    "pre-norm": ("transformer", TRANSFORMER | {"norm_first": True, "activation": "gelu", "bias": False}, {}),
    "learned positions": (
        "transformer",
        TRANSFORMER
        | {"positions": "learned", "tie_embeddings": False, "output_bias": True, "activation": "silu"},
        {"scale": False},
    ),
    "side by side": (
        "transformer",
        TRANSFORMER | {"concatenate_positions": True, "output_bias": True, "target_vocab_size": 13},
        {},
    ),
    "grouped queries": (
        "transformer",
        TRANSFORMER | {"num_heads": 4, "num_kv_heads": 2, "head_dim": 6, "positions": "rotary"},
        {},
    ),
    "no positions": (
        "transformer",
        TRANSFORMER
        | {"positions": "none", "is_causal": False, "scale_embeddings": False, "norm": "rms_norm"},
        {},
    ),
    "ALiBi": ("transformer", TRANSFORMER | {"positions": "alibi", "activation": "swiglu"}, {"causal": False}),
    "three heads' ALiBi": ("gpt2", GPT | {"positions": "alibi", "n_embd": 6, "n_head": 3}, {}),
    "positions off": ("transformer", TRANSFORMER, {"positions": False}),
    "rotation off": ("gpt2", GPT | {"positions": "rotary", "n_kv_head": 1}, {"positions": False}),
    "biases off": ("t5", T5 | {"tie_word_embeddings": False}, {"positions": False}),
    "heads off": (
        "transformer",
        TRANSFORMER,
        {"ablated": {"encoder.layers.0.self_attention": [1], "decoder.layers.1.cross_attention": [0, 1]}},
    ),
    "GPT": ("gpt2", GPT, {}),
    "an untied GPT": (
        "gpt2",
        GPT | {"tie_word_embeddings": False, "output_bias": True, "norm_first": False, "is_causal": False},
        {},
    ),
    "Llama": ("llama", LLAMA | {"num_key_value_heads": 2}, {}),
    "a tied Llama": ("llama", LLAMA | {"tie_word_embeddings": True, "hidden_act": "gelu_new"}, {}),
    "Llama, slower rotations": ("llama", LLAMA | {"rope_type": "linear", "rope_factor": 4.0}, {}),
    "Llama 3, slow rotations slower": ("llama", LLAMA3, {}),
    "T5": ("t5", T5 | {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}, {}),
    "a tied T5 without scaling": ("t5", T5 | {"scale_decoder_outputs": False}, {}),
    "an untied T5 with scaling": (
        "t5",
        T5 | {"tie_word_embeddings": False, "scale_decoder_outputs": True},
        {},
    ),
    "Marian": ("transformer", MARIAN, {}),
    "halves side by side": ("transformer", MARIAN | {"concatenate_positions": True}, {}),
    "a tied T5": ("t5", T5 | {"feed_forward_proj": "relu"}, {}),
    "a T5 with the exact GELU": ("t5", T5 | {"feed_forward_proj": "gated-gelu_python"}, {}),
    "BART": ("bart", BART | {"scale_embedding": True}, {}),
    "ViT": ("vit", VIT, {}),
    "LSTM": ("recurrent", RECURRENT, {}),
    "an untied LSTM": ("recurrent", RECURRENT | {"hidden_size": 5, "tie_word_embeddings": False}, {}),
    "an LSTM without memory": ("recurrent", RECURRENT, {"memory": False}),
    "GRU": ("recurrent", RECURRENT | {"rnn_type": "gru"}, {}),
    "RNN": ("recurrent", RECURRENT | {"rnn_type": "rnn"}, {}),
    "a class of a text": ("bert", BERT | {"head": "classification", "num_labels": 3}, {}),
    "DistilBERT": ("bert", BERT | {"type_vocab_size": 0}, {}),
    "a class of a text, DistilBERT": (
        "bert",
        BERT | {"type_vocab_size": 0, "pooler_hidden_act": "relu", "head": "classification"},
        {},
    ),
    "a class of each token": ("bert", BERT | {"head": "token_classification", "num_labels": 3}, {}),
    "the nearest sentence": ("bert", BERT | {"head": "similarity"}, {}),
    "the next sentence": ("bert", BERT | {"head": "next_sentence"}, {"positions": False}),
    "masked words": ("bert", BERT, {}),
    "masked words, pre-norm": (
        "bert",
        BERT | {"norm_first": True, "hidden_act": "relu", "pad_token_id": None},
        {},
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_every_activation_and_gradient_matches_the_engine(page, name):
    model_type, config, options = RECORDED[name]
    model = make(model_type, **config)
    if config.get("head") == "similarity":
        vectors = np.random.default_rng(3).normal(size=(4, model.config.hidden_size)).astype(np.float32)
        model.head.register_buffer("candidates", mg.tensor(vectors))
    load(page, model)
    source = ids(6)
    target = ids(5, seed=1) if model.is_encoder_decoder else None
    if model_type == "vit":
        source = np.random.default_rng(0).normal(size=2 * 6 * 6).round(3).tolist()
    expected = record(model, source, target, Switches(**options))
    rows, classes = expected.arrays["logits"].shape
    labels = np.random.default_rng(2).integers(0, classes, rows).tolist()
    for positions in (None, [rows // 2]):
        request = {"inputs": {"source": source, "target": target}, "labels": labels, "positions": positions}
        found = page.evaluate("request => runAndBackward(request)", {**request, "options": options})
        gradients = expected.backward(labels, positions)
        assert_close(unpacked(found["arrays"]), expected.arrays, 1e-5)
        assert found["loss"] == pytest.approx(gradients.loss, rel=1e-5)
        assert found["losses"] == pytest.approx(gradients.losses.tolist(), rel=1e-4)
        assert_close(unpacked(found["activations"]), gradients.activations, 1e-4)
        weights = unpacked(found["weights"])
        assert_close({name: weights[name] for name in gradients.weights}, gradients.weights, 1e-4)


SEARCHED = {  # caches, windows and limits
    "Transformer": ("transformer", TRANSFORMER),
    "learned positions": ("transformer", TRANSFORMER | {"positions": "learned"}),
    "rotary positions": ("transformer", TRANSFORMER | {"positions": "rotary", "norm_first": True}),
    "without a causal mask": ("transformer", TRANSFORMER | {"is_causal": False}),
    "GPT": ("gpt2", GPT | {"eos_token_id": 3}),
    "Llama": ("llama", LLAMA),
    "T5": ("t5", T5),
    "BART": ("bart", BART),
    "LSTM": ("recurrent", RECURRENT | {"eos_token_id": 3}),
    "GRU": ("recurrent", RECURRENT | {"rnn_type": "gru"}),
    "RNN": ("recurrent", RECURRENT | {"rnn_type": "rnn"}),
}


BEAMS = [(4, 1.0, "huggingface", False), (3, 2.0, "gnmt", "never")]


@pytest.mark.parametrize("name", SEARCHED)
def test_page_greedy_and_beam_search_match_generate(page, name):
    model_type, config = SEARCHED[name]
    model = make(model_type, **config)
    load(page, model)
    source = ids(5)
    expected = generate(model, [source], 12, return_dict=True)
    found = page.evaluate("source => model.generate(source, { maxNew: 12 })", source)
    assert found == {"ids": expected.ids[0], "stopped": expected.finish_reasons[0] == "eos"}
    for beams, penalty, form, early in BEAMS:
        options = {"num_beams": beams, "length_penalty": penalty, "length_penalty_form": form}
        settings = {"beams": beams, "lengthPenalty": penalty, "form": form, "early": early, "maxNew": 12}
        found = page.evaluate("([source, settings]) => model.beams(source, settings)", [source, settings])
        expected = generate(
            model,
            [source],
            12,
            num_return_sequences=beams,
            output_beams=True,
            return_dict=True,
            early_stopping=early,
            **options,
        )
        assert [text["ids"] for text in found["texts"]] == expected.ids
        assert [text["score"] for text in found["texts"]] == pytest.approx(expected.scores, rel=1e-5)
        assert found["best"] == expected.ids[0]
        assert_same_tree(found["steps"], expected.beams[0])


@pytest.mark.parametrize("model_type", ["bart", "transformer"])
def test_page_forced_and_suppressed_tokens_match_generate(page, model_type):
    model = make(model_type, **{"bart": BART, "transformer": TRANSFORMER}[model_type])
    source = ids(5)
    (free,) = generate(model, [source], 8)
    options = {"forced_bos_token_id": 4, "suppress_tokens": [free[0], free[1]], "eos_token_id": [3, 9]}
    load(page, model, generation=options)
    expected = generate(model, [source], 8, return_dict=True, **options)
    found = page.evaluate("source => model.generate(source, { maxNew: 8 })", source)
    assert found == {"ids": expected.ids[0], "stopped": expected.finish_reasons[0] == "eos"}
    assert found["ids"][0] == 4
    assert found["ids"] != free
    beams = generate(model, [source], 8, num_beams=3, num_return_sequences=3, return_dict=True, **options)
    found = page.evaluate("source => model.beams(source, { beams: 3, maxNew: 8 })", source)
    assert [text["ids"] for text in found["texts"]] == beams.ids
    assert [text["score"] for text in found["texts"]] == pytest.approx(beams.scores, rel=1e-5)


@pytest.mark.parametrize("model_type", ["bart", "gpt2"])
@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.8}, {"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2},
        {"repetition_penalty": 0.5, "no_repeat_ngram_size": 2}, {"min_new_tokens": 5},
        {"suppress_tokens": [4, 5], "renormalize_logits": True},
    ],
    ids=str,
)  # fmt: skip
def test_page_generation_options_match_generate(page, options, model_type):
    model = make(model_type, **{"bart": BART, "gpt2": GPT}[model_type])
    source = ids(5)
    (free,) = generate(model, [source], 8, eos_token_id=())
    options = {**options, "eos_token_id": [free[1]]}
    load(page, model, generation=options)
    expected = generate(model, [source], 8, return_dict=True, **options)
    found = page.evaluate("source => model.generate(source, { maxNew: 8 })", source)
    assert found == {"ids": expected.ids[0], "stopped": expected.finish_reasons[0] == "eos"}
    beams = generate(model, [source], 8, num_beams=3, num_return_sequences=3, return_dict=True, **options)
    found = page.evaluate("source => model.beams(source, { beams: 3, maxNew: 8 })", source)
    assert [text["ids"] for text in found["texts"]] == beams.ids
    assert [text["score"] for text in found["texts"]] == pytest.approx(beams.scores, rel=1e-5)


@pytest.mark.parametrize("model_type", ["bart", "transformer"])
def test_page_texts_at_the_length_limit_match_generate(page, model_type):
    model = make(model_type, **{"bart": BART, "transformer": TRANSFORMER}[model_type])
    source = ids(5)
    options = {"forced_bos_token_id": 4, "forced_eos_token_id": 3, "eos_token_id": 3}
    load(page, model, generation=options, max_length=6)
    expected = generate(model, [source], 6, return_dict=True, **options)
    (free,) = generate(model, [source], 6, forced_bos_token_id=4, eos_token_id=3)
    assert len(free) == 6  # it does not end by itself
    found = page.evaluate("source => model.generate(source)", source)
    assert found == {"ids": expected.ids[0], "stopped": True}
    assert found["ids"] == free[:5]
    found = page.evaluate("source => model.generate(source, { maxNew: 3 })", source)
    assert found == {"ids": free[:3], "stopped": False}  # its beginning alone
    beams = generate(model, [source], 6, num_beams=3, num_return_sequences=3, return_dict=True, **options)
    found = page.evaluate("source => model.beams(source, { beams: 3 })", source)
    assert [text["ids"] for text in found["texts"]] == beams.ids
    assert [text["score"] for text in found["texts"]] == pytest.approx(beams.scores, rel=1e-5)


def assert_same_tree(found, expected):
    assert len(found) == len(expected)
    for nodes, step in zip(found, expected, strict=True):
        assert [node["token"] for node in nodes] == step.tokens.tolist()
        assert [max(node["parent"], 0) for node in nodes] == step.parents.tolist()
        assert [node["finished"] for node in nodes] == step.ended.tolist()
        assert [node["score"] for node in nodes] == pytest.approx(step.scores.tolist(), rel=1e-5)
