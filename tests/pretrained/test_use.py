"""How a model is meant to be used, beside its weights: the pooling of sentence vectors, and decoding."""

import json

import pytest

from minitransformer import BERT, BERTConfig
from minitransformer.cli.wording import flags
from minitransformer.pretrained import PretrainedError, load_pretrained, save_pretrained
from minitransformer.pretrained.generation import needed_options, suggested_options

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
def test_the_mean_of_states_is_read(modes, folder):
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
def test_other_poolings_are_refused_by_name(modes, named, folder):
    write_pooling(folder, **modes)
    with pytest.raises(PretrainedError, match=f"{named}; only the mean"):
        load_pretrained(folder)


def test_other_modules_are_refused_by_name(folder):
    path = folder / "modules.json"
    modules = [*json.loads(path.read_text()), {"idx": 3, "path": "3_Dense", "type": f"{MODULE}Dense"}]
    path.write_text(json.dumps(modules))
    with pytest.raises(PretrainedError, match="has the module Dense; only"):
        load_pretrained(folder)


def test_forced_and_suppressed_tokens_and_several_ends_are_needed():
    content = {
        "forced_bos_token_id": 3, "forced_eos_token_id": None, "bad_words_ids": [[9], [4, 5]],
        "suppress_tokens": [2], "eos_token_id": [0, 1], "num_beams": 4,
    }  # fmt: skip
    expected = {"forced_bos_token_id": 3, "suppress_tokens": [2, 9], "eos_token_id": [0, 1]}
    assert needed_options(content, 10) == expected
    assert needed_options({"forced_bos_token_id": 10, "eos_token_id": 1}, 10) == {}


def test_the_decoding_of_the_authors_is_shown_as_flags():
    content = {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "early_stopping": True}
    assert " ".join(flags(suggested_options(content))) == (
        "--num-beams 4 --length-penalty 2.0 --no-repeat-ngram-size 3 --early-stopping true"
    )
    assert suggested_options({"num_beams": 1, "length_penalty": 2.0}) == {}
