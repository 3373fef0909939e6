"""How a model is meant to be used, beside its weights: the pooling of sentence vectors, and decoding."""

import copy
import json
from pathlib import Path

import pytest

from minitransformer import BART, BERT, GPT, BARTConfig, BERTConfig, GPTConfig, generate
from minitransformer.cli.wording import command
from minitransformer.generation import stream
from minitransformer.pretrained import PretrainedError, load_pretrained, save_pretrained
from minitransformer.pretrained.generation import read_generation
from minitransformer.recipes import Recipe

MODULE = "sentence_transformers.models."


@pytest.fixture
def folder(tmp_path):
    """A sentence encoder in the files of sentence-transformers."""
    sizes = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BERT(BERTConfig(**sizes, intermediate_size=12, max_position_embeddings=6, head="similarity"))
    save_pretrained(model, tmp_path / "model")
    return tmp_path / "model"


def write_pooling(folder, **settings):
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("modes", [{"pooling_mode": "mean"}, {"pooling_mode_mean_tokens": True}, {}])
def test_mean_pooling_is_read_as_a_similarity_head(modes, folder):
    write_pooling(folder, **modes, pooling_mode_cls_token=False, word_embedding_dimension=8)
    assert load_pretrained(folder).config.head == "similarity"


@pytest.mark.parametrize(
    ("modes", "named"),
    [
        ({"pooling_mode": "cls"}, "pooling cls"),
        ({"pooling_mode_cls_token": True}, "pooling cls_token"),
        ({"pooling_mode_weightedmean_tokens": True}, "pooling weightedmean_tokens"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "pooling max_tokens"),
    ],
)
def test_unsupported_poolings_are_rejected_by_name(modes, named, folder):
    write_pooling(folder, **modes)
    with pytest.raises(PretrainedError, match=f"{named}; only the mean"):
        load_pretrained(folder)


def test_unsupported_modules_are_rejected_by_name(folder):
    path = folder / "modules.json"
    modules = [*json.loads(path.read_text()), {"idx": 3, "path": "3_Dense", "type": f"{MODULE}Dense"}]
    path.write_text(json.dumps(modules))
    with pytest.raises(PretrainedError, match="has the module Dense; only"):
        load_pretrained(folder)


SIDES = {f"{side}_{name}": 1 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
MODELS = {
    "gpt2": lambda: GPT(
        GPTConfig(vocab_size=10, n_positions=30, n_embd=4, n_layer=1, n_head=1, eos_token_id=1)
    ),
    "bart": lambda: BART(BARTConfig(vocab_size=10, d_model=4, max_position_embeddings=30, **SIDES)),
}


def read(folder, kind, content):
    (folder / "generation_config.json").write_text(json.dumps(content))
    return read_generation(folder, {"repetition_penalty": 9.0}, MODELS[kind]())


@pytest.mark.parametrize(
    ("kind", "content", "needed", "named"),
    [
        ("gpt2", {}, {}, ""),
        ("gpt2", {"repetition_penalty": 2, "no_repeat_ngram_size": 3}, "all", ""),
        ("gpt2", {"min_new_tokens": 4, "renormalize_logits": True, "forced_eos_token_id": 1}, "all", ""),
        ("gpt2", {"repetition_penalty": 1.0, "temperature": 0.5, "length_penalty": 2.0}, {}, ""),
        ("gpt2", {"repetition_penalty": "high"}, {}, "repetition_penalty"),
        ("gpt2", {"eos_token_id": 1, "max_length": 9, "pad_token_id": 0, "use_cache": False}, {}, ""),
        ("gpt2", {"eos_token_id": 3}, {"eos_token_id": [3]}, ""),
        ("gpt2", {"eos_token_id": [1]}, {}, ""),
        ("gpt2", {"eos_token_id": [1, 3, 99]}, {"eos_token_id": [1, 3]}, ""),
        ("gpt2", {"forced_eos_token_id": 10}, {}, "forced_eos_token_id"),
        ("gpt2", {"forced_bos_token_id": 3}, {}, "forced_bos_token_id"),  # after one token alone
        ("gpt2", {"min_length": 5, "max_new_tokens": 9}, {}, "min_length max_new_tokens"),
        ("gpt2", {"bad_words_ids": [[9], [4, 5]]}, {"suppress_tokens": [9]}, "bad_words_ids"),
        ("gpt2", {"suppress_tokens": [-1, 2, 99]}, {"suppress_tokens": [2]}, ""),
        ("gpt2", {"stop_strings": ["x"], "their_own": 1}, {}, "stop_strings their_own"),
        ("gpt2", {"eos_token_id": 3, "bad_words_ids": [[3], [9]]},
         {"eos_token_id": [3], "suppress_tokens": [9]}, ""),
        ("bart", {"forced_bos_token_id": 3, "forced_eos_token_id": 2}, "all", ""),
        ("bart", {"min_length": 5, "max_length": 30, "decoder_start_token_id": 2}, {"min_new_tokens": 4}, ""),
        ("bart", {"max_length": 29, "decoder_start_token_id": 5}, {}, "max_length decoder_start_token_id"),
        ("gpt2", {"bad_words_ids": [5], "suppress_tokens": 3}, {}, "bad_words_ids suppress_tokens"),
        ("gpt2", {"bad_words_ids": [[], [5]], "suppress_tokens": ["x"]}, {}, "bad_words_ids suppress_tokens"),
        ("bart", {"num_beams": 0, "length_penalty": 2.0}, {}, "num_beams"),
        ("bart", {"begin_suppress_tokens": [4], "top_h": 0.5}, {}, "begin_suppress_tokens"),
        ("bart", {"num_beam_groups": 2, "sequence_bias": [[[3], -1.0]]}, {}, "num_beam_groups sequence_bias"),
    ],
)  # fmt: skip
def test_each_generation_key_is_applied_or_named(kind, content, needed, named, tmp_path):
    found, suggested, ignored = read(tmp_path, kind, content)
    assert found == (content if needed == "all" else needed)
    assert suggested == {}
    assert sorted(ignored) == sorted(named.split())


def test_generation_options_fall_back_to_config_json(tmp_path):
    settings = {"repetition_penalty": 2.0, "max_time": 3.0, "eos_token_id": [1, 2], "n_embd": 4, "n_ctx": 8}
    expected = {"repetition_penalty": 2.0, "eos_token_id": [1, 2]}, {}, {"max_time": 3.0}
    assert read_generation(tmp_path, settings, MODELS["gpt2"]()) == expected


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("bart", {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True},
         "translate . --num-beams 4 --length-penalty 2.0 --early-stopping true"),
        ("bart", {"num_beams": 4, "early_stopping": "never", "num_return_sequences": 2},
         "translate . --num-beams 4 --early-stopping never --num-return-sequences 2"),
        ("bart", {"do_sample": True, "top_k": 0}, "translate . --do-sample --temperature 1.0"),
        ("gpt2", {"do_sample": True, "temperature": 0.6, "top_p": 0.9},
         "generate . --temperature 0.6 --top-k 50 --top-p 0.9"),
        ("bart", {"num_beams": 2, "length_penalty": 0.0}, "translate . --num-beams 2 --length-penalty 0.0"),
        ("gpt2", {"do_sample": False, "temperature": 0.6, "num_beams": 1}, "generate ."),
    ],
)  # fmt: skip
def test_the_suggested_decoding_is_shown_as_flags(kind, content, expected, tmp_path):
    _, suggested, ignored = read(tmp_path, kind, content)
    recipe = Recipe({"bart": "translation", "gpt2": "language-modelling"}[kind])
    assert command(recipe, Path("."), [], suggested) == f"minitransformer {expected}"
    assert not ignored


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_generates_with_its_own_options(kind, tmp_path):
    model = MODELS[kind]().eval()
    (free,) = generate(model, [[3, 4]], 5, eos_token_id=())
    save_pretrained(model, tmp_path / "model", generation={"suppress_tokens": [free[0]], "eos_token_id": 7})
    for again in (load_pretrained(tmp_path / "model"), copy.deepcopy(load_pretrained(tmp_path / "model"))):
        assert generate(again, [[3, 4]], 5, eos_token_id=(), suppress_tokens=[]) == [
            free
        ]  # what is asked for
        (own,) = generate(again, [[3, 4]], 5)
        assert own == generate(model, [[3, 4]], 5, suppress_tokens=[free[0]], eos_token_id=7)[0]
        streamed = [token for (token,) in stream(again, [[3, 4]], max_new_tokens=5)]
        assert [token for token in streamed if token is not None] == own
    save_pretrained(again, tmp_path / "back")
    assert load_pretrained(tmp_path / "back").generation_options == again.generation_options
