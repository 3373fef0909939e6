"""load_pretrained and save_pretrained: what is written is read back, and each problem is named."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from minitransformer import (
    BART,
    BERT,
    GPT,
    T5,
    BARTConfig,
    BERTConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    RecurrentConfig,
    RecurrentLM,
    T5Config,
    Transformer,
    TransformerConfig,
    ViT,
    ViTConfig,
)
from minitransformer.pretrained import PretrainedError, PretrainedWarning, load_pretrained, save_pretrained

GPT2 = {"vocab_size": 11, "n_positions": 6, "n_embd": 8, "n_layer": 2, "n_head": 2}
SMALL = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
IDS = np.array([[3, 9, 4, 1]])


def gpt(**options):
    return GPT(GPTConfig(**GPT2, **options)).eval()


def bert(**options):
    return BERT(BERTConfig(**SMALL, intermediate_size=12, max_position_embeddings=6, **options)).eval()


def distilbert(**options):
    return bert(type_vocab_size=0, pooler_hidden_act="relu", **options)


def llama(**options):
    return Llama(LlamaConfig(**SMALL, intermediate_size=12, num_key_value_heads=1, **options)).eval()


def t5(**options):
    return T5(
        T5Config(vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=1, num_heads=2, **options)
    ).eval()


def bart():
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in
             {"layers": 1, "attention_heads": 2, "ffn_dim": 12}.items()}  # fmt: skip
    return BART(BARTConfig(vocab_size=11, d_model=8, max_position_embeddings=6, **sides)).eval()


def marian(**options):
    config = TransformerConfig(
        11, 8, 2, 12, 1, 1, activation="silu", positions="sinusoidal_halves", output_bias=True,
        pad_token_id=10, bos_token_id=10, eos_token_id=0, **options,
    )  # fmt: skip
    return Transformer(config).eval()


def vit():
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    return ViT(ViTConfig(**sizes, image_size=4, patch_size=2, num_channels=1, num_labels=3)).eval()


def output(model):
    if model.model_type == "vit":
        return model(np.linspace(0, 1, 16, dtype=np.float32).reshape(1, 1, 4, 4)).numpy()
    found = model(IDS, IDS) if model.is_encoder_decoder else model(IDS)
    return getattr(found, "logits", found).numpy()


MODELS = {
    "llama": llama,
    "tied llama": lambda: llama(tie_word_embeddings=True),
    "llama 3.1": lambda: llama(rope_type="llama3", rope_factor=8.0, original_max_position_embeddings=16),
    "longer llama": lambda: llama(rope_type="linear", rope_factor=2.0),
    "t5": t5,
    "t5 1.1": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "bart": bart,
    "marian": marian,
    "marian, two vocabularies": lambda: marian(target_vocab_size=13),
    "vit": vit,
    **{
        f"distilbert, {head}": lambda head=head: distilbert(head=head, num_labels=3)
        for head in ("masked_lm", "classification", "question_answering", "similarity")
    },
    "gpt2": gpt,
    "untied gpt2": lambda: gpt(tie_word_embeddings=False),
    **{
        f"bert, {head}": lambda head=head: bert(head=head, num_labels=3)
        for head in ("masked_lm", "next_sentence", "classification", "token_classification", "similarity")
    },
}


def written(model, folder):
    save_pretrained(model, folder)
    return folder


def change(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize("name", MODELS)
def test_save_pretrained_round_trips(name, tmp_path):
    model = MODELS[name]()
    for mmap in (False, True):
        again = load_pretrained(written(model, tmp_path / "new" / "models" / f"{mmap}"), mmap=mmap)
        assert again.config == model.config
        np.testing.assert_array_equal(output(again), output(model))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
def test_weights_are_converted_to_the_requested_dtype(dtype, tmp_path):
    model = gpt().to("bfloat16" if dtype == "float32" else "float32")
    again = load_pretrained(written(model, tmp_path / "model"), dtype=dtype)
    assert {str(p.dtype).rpartition(".")[2] for p in again.parameters()} == {dtype}
    weight = model.embedding.weight.numpy().astype(again.embedding.weight.numpy().dtype)
    np.testing.assert_array_equal(again.embedding.weight.numpy(), weight)


def test_a_missing_tensor_is_named(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    change_tensors(folder, lambda tensors: tensors.pop("transformer.h.1.mlp.c_fc.weight"))
    with pytest.raises(PretrainedError, match=r"lacks 1 tensor .*: transformer\.h\.1\.mlp\.c_fc\.weight"):
        load_pretrained(folder)


def test_a_tensor_of_the_wrong_shape_is_named_with_both_shapes(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    change(folder, n_inner=20)
    with pytest.raises(PretrainedError, match=r"mlp\.c_fc\.weight \(8, 32\), expected \(8, 20\)"):
        load_pretrained(folder)


def test_an_extra_tensor_is_named_in_a_warning(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    change_tensors(folder, lambda tensors: tensors.update(gate=np.zeros(2, np.float32)))
    with pytest.warns(PretrainedWarning, match="not used.*: gate"):
        load_pretrained(folder)


def test_gpt2_names_without_prefix_and_stored_masks_are_read(tmp_path):
    model = gpt()
    folder = written(model, tmp_path / "model")

    def older(tensors):
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = np.ones((1, 1, 6, 6), np.float32)

    change_tensors(folder, older)
    np.testing.assert_array_equal(load_pretrained(folder)(IDS).numpy(), model(IDS).numpy())


def test_old_bert_gamma_and_beta_names_are_read(tmp_path):
    model = bert()
    folder = written(model, tmp_path / "model")

    def older(tensors):
        for name in list(tensors):
            new = name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            tensors[new] = tensors.pop(name)

    change_tensors(folder, older)
    change(folder, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    np.testing.assert_array_equal(load_pretrained(folder)(IDS).numpy(), model(IDS).numpy())


def test_an_untied_output_layer_is_loaded(tmp_path):
    model = gpt(tie_word_embeddings=False)
    folder = written(model, tmp_path / "model")
    change(folder, tie_word_embeddings=True)
    again = load_pretrained(folder)
    assert not again.config.tie_word_embeddings
    np.testing.assert_array_equal(again(IDS).numpy(), model(IDS).numpy())


def test_llama_3_1_rope_scaling_is_read_in_both_formats(tmp_path):
    model = MODELS["llama 3.1"]()
    folder = written(model, tmp_path / "model")
    scaling = {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    content = json.loads((folder / "config.json").read_text())
    assert content["rope_parameters"] == {"rope_type": "llama3", "rope_theta": 10000.0, **scaling}
    change(folder, rope_parameters=None, rope_scaling={"rope_type": "llama3", **scaling})
    np.testing.assert_array_equal(load_pretrained(folder)(IDS).numpy(), model(IDS).numpy())
    change(folder, rope_scaling=None)
    assert not np.allclose(load_pretrained(folder)(IDS).numpy(), model(IDS).numpy())
    change(folder, rope_scaling={"type": "yarn", "factor": 8.0})
    with pytest.raises(PretrainedError, match="'yarn', which is not supported"):
        load_pretrained(folder)


def test_heads_can_be_replaced_for_fine_tuning(tmp_path):
    model = bert()
    folder = written(model, tmp_path / "model")
    with pytest.warns(PretrainedWarning) as warned:
        again = load_pretrained(folder, head="classification", num_labels=5)
    assert again(IDS).shape == (1, 5)
    assert [str(each.message).partition(",")[0] for each in warned] == ["new weights", "not used"]
    np.testing.assert_array_equal(again.states(IDS).numpy(), model.states(IDS).numpy())


def test_shards_are_read(tmp_path):
    model = gpt()
    folder = written(model, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    halves = {"a.safetensors": list(tensors)[:9], "b.safetensors": list(tensors)[9:]}
    for name, half in halves.items():
        save_file({key: tensors[key] for key in half}, folder / name)
    weight_map = {key: name for name, half in halves.items() for key in half}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    np.testing.assert_array_equal(load_pretrained(folder)(IDS).numpy(), model(IDS).numpy())

    index.write_text(json.dumps({"weight_map": dict.fromkeys(weight_map, "../model/a.safetensors")}))
    with pytest.raises(PretrainedError, match="not a file of the same folder"):
        load_pretrained(folder)
    (folder / "b.safetensors").unlink()
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(PretrainedError, match=r"b\.safetensors is missing"):
        load_pretrained(folder)


def test_pickles_are_rejected_with_a_conversion_command(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(PretrainedError, match=r"GPT2LMHeadModel as M.*save_pretrained") as error:
        load_pretrained(folder)
    assert "pickle" in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba'.*\nIt can read bart, "),
        ({"scale_attn_by_inverse_layer_idx": True}, "only False is supported"),
        ({"n_head": 3}, "n_head"),
        ({"n_embd": "wide"}, "n_embd must be an integer"),
        ({"activation_function": "quick_gelu"}, "unknown activation 'quick_gelu'"),
        ({"n_embd": 2**40}, "cannot be built|did not match"),
    ],
)
def test_invalid_or_unsupported_settings_are_named(settings, message, tmp_path):
    folder = written(gpt(), tmp_path / "model")
    change(folder, **settings)
    with pytest.raises(PretrainedError, match=message):
        load_pretrained(folder)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (gpt, {"n_heads": 2, "quantization_config": {"bits": 8}}),
        (bert, {"n_head": 2}),
        (llama, {"sliding_window": 4}),
        (t5, {"max_position_embeddings": 6}),
        (vit, {"auto_map": {"AutoModel": "mine.Model"}}),
    ],
)
def test_unused_settings_are_named_in_a_warning(make, settings, tmp_path):
    folder = written(make(), tmp_path / "model")
    change(
        folder, **settings, pruned_heads={}, prefix=None, _commit_hash="0", use_cache=True, temperature=0.7
    )
    with pytest.warns(PretrainedWarning, match=rf"config\.json: settings not used: {', '.join(settings)}$"):
        load_pretrained(folder)


def test_aliases_of_settings_are_read(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    change(folder, num_attention_heads=4, activation_function="swish")
    config = load_pretrained(folder).config
    assert (config.n_head, config.activation_function) == (4, "silu")


def test_activations_are_saved_by_their_transformers_names(tmp_path):
    folder = written(gpt(activation_function="gelu_tanh"), tmp_path / "model")
    assert json.loads((folder / "config.json").read_text())["activation_function"] == "gelu_new"


@pytest.mark.parametrize("scaling", ["llama3", ["linear"]])
def test_invalid_rope_parameters_are_named(scaling, tmp_path):
    folder = written(llama(), tmp_path / "model")
    change(folder, rope_parameters=scaling)
    with pytest.raises(PretrainedError, match="as the settings of rotary positions"):
        load_pretrained(folder)


def test_unsupported_weight_dtypes_are_named(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    path = folder / "model.safetensors"
    header = json.dumps({"wte.weight": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with pytest.raises(PretrainedError, match=r"wte\.weight has the dtype F8_E4M3, which is not supported"):
        load_pretrained(folder)


def test_files_and_adapter_folders_are_rejected_as_models(tmp_path):
    (tmp_path / "text.txt").write_text("a text")
    with pytest.raises(PretrainedError, match=r"text\.txt is a file"):
        load_pretrained(tmp_path / "text.txt")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(PretrainedError, match=r"has adapters without their model.\n.*merge_and_unload"):
        load_pretrained(tmp_path)


def test_models_without_a_transformers_class_cannot_be_exported(tmp_path):
    with pytest.raises(PretrainedError, match="positions = 'rotary'"):
        save_pretrained(gpt(positions="rotary"), tmp_path / "model")
    with pytest.raises(PretrainedError, match="no class for a model of type recurrent"):
        save_pretrained(RecurrentLM(RecurrentConfig(vocab_size=5)), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_an_existing_folder_is_never_overwritten(tmp_path):
    folder = written(gpt(), tmp_path / "model")
    with pytest.raises(PretrainedError, match="already exists"):
        save_pretrained(gpt(), folder)
