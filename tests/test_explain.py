"""The walk-through page: its numbers are the engine's, and what it shows of them in a real browser."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import BERT, GPT, T5, BERTConfig, GPTConfig, T5Config, Transformer, TransformerConfig
from minitransformer.explain import Switches, record
from minitransformer.models.llama import Llama, LlamaConfig

SOURCE, TARGET, LABELS = [5, 6, 7, 3], [2, 8, 9], [8, 9, 3]


def transformer(**settings):
    mg.manual_seed(0)
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 2, "num_decoder_layers": 1}
    return Transformer(TransformerConfig(vocab_size=11, dropout=0.0, **sizes | settings)).eval()


def models():
    """Models of each family, with what makes their computation different."""
    yield "post-norm", transformer()
    yield "pre-norm", transformer(norm_first=True, activation="gelu", output_bias=True)
    yield "learned, apart", transformer(positions="learned", concatenate_positions=True, tie_embeddings=False)
    yield "gpt", GPT(GPTConfig(11, n_positions=9, n_embd=8, n_layer=2, n_head=2)).eval()
    llama = LlamaConfig(
        vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    yield "llama", Llama(llama).eval()
    t5 = T5Config(
        vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=1, num_heads=2,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    yield "t5", T5(t5).eval()
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    yield "bert", BERT(BERTConfig(vocab_size=11, **sizes)).eval()


def logits_of(model):
    if model.is_encoder_decoder:
        return model([SOURCE], [TARGET])[0]
    return model([SOURCE])[0]


@pytest.mark.parametrize(("name", "model"), list(models()), ids=lambda x: x if isinstance(x, str) else "")
def test_the_record_is_the_models_own_computation_and_gradients(name, model):
    found = record(model, SOURCE, TARGET if model.is_encoder_decoder else None)
    labels = LABELS if model.is_encoder_decoder else [6, 7, 3, 3]
    np.testing.assert_allclose(found.arrays["logits"], logits_of(model).numpy(), rtol=0, atol=1e-5)
    gradients = found.backward(labels)
    F.cross_entropy(logits_of(model), mg.tensor(np.array(labels))).backward()
    for parameter, p in model.named_parameters():
        np.testing.assert_allclose(gradients.weights[parameter], p.grad.numpy(), rtol=0, atol=2e-6)


def test_switches_change_what_they_name():
    model, path = transformer(), "encoder.layers.0.self_attention"
    whole = record(model, SOURCE, TARGET).arrays
    off = record(model, SOURCE, TARGET, Switches(causal=False, positions=False, ablated={path: [1]})).arrays
    assert np.isneginf(whole["decoder.layers.0.self_attention.masked"][:, 0, 1:]).all()
    assert np.isfinite(off["decoder.layers.0.self_attention.masked"]).all()
    assert not off["encoder.positions"].any()
    assert not off[f"{path}.heads"][1].any()
    assert off[f"{path}.heads"][0].any()


def test_a_position_that_is_not_chosen_has_no_gradient():
    gradients = record(transformer(), SOURCE, TARGET).backward(LABELS, positions=[1])
    np.testing.assert_allclose(gradients.loss, gradients.losses[1], rtol=1e-6)
    assert not gradients.activations["logits"][[0, 2]].any()
    assert not gradients.activations["decoder.input"][2].any()  # later than the loss
