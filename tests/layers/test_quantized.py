"""8-bit weights: per row, close to the float model, a quarter of its memory, and only for use."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.quantized import quantize_rows, quantized_linear
from minitransformer import (
    BERT,
    GPT,
    T5,
    BERTConfig,
    GPTConfig,
    Llama,
    LlamaConfig,
    T5Config,
    Transformer,
    TransformerConfig,
    generate,
)
from minitransformer.layers.quantized import (
    bytes_of,
    check_not_quantized,
    count_weights,
    dequantize,
    quantize,
)
from minitransformer.training.checkpoint import check_finite

IDS = np.array([[5, 300, 7, 8], [9, 1, 2, 3]])
MODELS = {
    "gpt2": lambda: GPT(GPTConfig(vocab_size=400, n_positions=16, n_embd=32, n_layer=2, n_head=4)),
    "llama": lambda: Llama(
        LlamaConfig(
            vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2,
        )
    ),
    "bert": lambda: BERT(
        BERTConfig(
            vocab_size=400, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=16,
        )
    ),
    "transformer": lambda: Transformer(TransformerConfig(400, 32, 4, 48, 2, 2, output_bias=True)),
    "t5": lambda: T5(T5Config(vocab_size=400, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)),
}  # fmt: skip


def logits(model):
    return (model(IDS, IDS) if model.is_encoder_decoder else model(IDS)).numpy()


def test_each_row_has_its_own_scale():
    array = np.array([[1.0, -2.0, 0.5], [100.0, 0.0, 50.0], [0.0, 0.0, 0.0]], np.float32)
    integers, scale = quantize_rows(array)
    assert integers.dtype == np.int8
    np.testing.assert_array_equal(integers, [[64, -127, 32], [127, 0, 64], [0, 0, 0]])
    np.testing.assert_allclose(scale, [2 / 127, 100 / 127, 1], rtol=1e-6)
    assert (np.abs(integers * scale[:, None] - array) <= scale[:, None] / 2 + 1e-6).all()


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_quantized_linear_kernels_match_the_definition(rows):
    rng = np.random.default_rng(0)
    integers, scale = quantize_rows(rng.normal(size=(600, 33)).astype(np.float32))
    parts = [
        mg.tensor(x, requires_grad=x.dtype == np.float32)
        for x in (rng.normal(size=(rows, 33)).astype(np.float32), integers, scale, scale)
    ]
    fast = quantized_linear(*parts)
    with mg.fused(False):
        plain = quantized_linear(*parts)
    np.testing.assert_allclose(fast.numpy(), plain.numpy(), rtol=1e-4, atol=1e-4)
    inputs = [part for part in parts if part.requires_grad]
    g = mg.tensor(rng.normal(size=fast.shape).astype(np.float32))
    for a, b in zip(mg.autograd.grad(fast, inputs, g), mg.autograd.grad(plain, inputs, g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_quantized_models_are_accurate_and_small(name):
    model = MODELS[name]().eval()
    before, size, count = logits(model), bytes_of(model), model.num_parameters()
    assert quantize(model) is model
    after = logits(model)
    assert np.abs(after - before).max() < 0.05 * np.abs(before).max()
    assert count_weights(model) == count
    assert bytes_of(model) < 0.45 * size  # norms, biases and positions weigh more in a small model


@pytest.mark.parametrize("name", ["gpt2", "llama", "transformer", "t5"])
def test_quantized_generation_uses_the_cache(name):
    model = quantize(MODELS[name]())
    ids = [[5, 300, 7]]
    assert generate(model, ids, 5) == generate(model, ids, 5, use_cache=False)


@pytest.mark.parametrize("name", MODELS)
def test_a_dequantized_model_has_the_same_values_in_float32(name):
    plain = MODELS[name]()
    before = {key: tensor.numpy() for key, tensor in plain.state_dict().items()}
    model = quantize(plain)
    found = dequantize(model)
    np.testing.assert_allclose(logits(found), logits(model), rtol=1e-5, atol=1e-5)
    after = {key: tensor.numpy() for key, tensor in found.state_dict().items()}
    assert after.keys() == before.keys()
    for key, expected in before.items():
        assert after[key].dtype == np.float32
        np.testing.assert_allclose(after[key], expected, atol=np.abs(expected).max() / 250, err_msg=key)


def test_autocast_does_not_round_the_scales_of_an_embedding():
    embedding = quantize(MODELS["gpt2"]()).embedding
    expected = embedding(np.array([[5, 300, 7]])).numpy()
    with mg.autocast(dtype="bfloat16"):
        np.testing.assert_array_equal(embedding(np.array([[5, 300, 7]])).numpy(), expected)


def test_quantized_weights_can_be_saved_and_loaded(tmp_path):
    model = quantize(MODELS["gpt2"]())
    mg.save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = quantize(MODELS["gpt2"]())
    again.load_state_dict(mg.load_file(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(logits(again), logits(model))


def test_quantized_weights_cannot_be_trained():
    model = quantize(MODELS["gpt2"]())
    assert {name.split(".")[-2] for name, _ in model.named_parameters()} <= {"norm", "positions"}
    with pytest.raises(ValueError, match="8-bit weights cannot be trained"):
        check_not_quantized(model, "trained")


def test_checking_that_integers_are_finite_takes_no_memory():
    weights = {"weight": mg.zeros(1000, 1000, dtype="int8")}
    tracemalloc.start()
    check_finite(weights, "step 0")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
