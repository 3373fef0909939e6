"""The walk-through page: its numbers are the engine's, and what it shows of them in a real browser."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import BART, BERT, GPT, T5, Transformer, ViT
from minitransformer.explain import Switches, record
from minitransformer.models.bart import BARTConfig
from minitransformer.models.bert import BERTConfig
from minitransformer.models.gpt import GPTConfig
from minitransformer.models.llama import Llama, LlamaConfig
from minitransformer.models.t5 import T5Config
from minitransformer.models.transformer import TransformerConfig
from minitransformer.models.vit import ViTConfig

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
    for head in ("classification", "token_classification", "next_sentence"):
        yield head, BERT(BERTConfig(vocab_size=11, head=head, **sizes)).eval()
    tied = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    yield "tied t5", T5(T5Config(vocab_size=11, **tied)).eval()
    bart = {
        "encoder_layers": 1, "encoder_ffn_dim": 12, "encoder_attention_heads": 2, "decoder_layers": 1,
        "decoder_ffn_dim": 12, "decoder_attention_heads": 2, "max_position_embeddings": 9,
    }  # fmt: skip
    yield "bart", BART(BARTConfig(vocab_size=11, d_model=8, dropout=0.0, **bart)).eval()
    yield "vit", ViT(ViTConfig(image_size=6, patch_size=3, num_channels=2, num_labels=3, **sizes)).eval()


IMAGE = np.random.default_rng(0).normal(size=(2, 6, 6)).astype(np.float32)


def logits_of(model):
    if model.is_encoder_decoder:
        return model([SOURCE], [TARGET])[0]
    logits = model(IMAGE[None]) if isinstance(model, ViT) else model([SOURCE])
    return logits[0] if logits.ndim == 3 else logits


@pytest.mark.parametrize(("name", "model"), list(models()), ids=lambda x: x if isinstance(x, str) else "")
def test_the_record_is_the_models_own_computation_and_gradients(name, model):
    source = IMAGE.ravel() if isinstance(model, ViT) else SOURCE
    found = record(model, source, TARGET if model.is_encoder_decoder else None)
    rows, classes = found.arrays["logits"].shape
    labels = [label % classes for label in (8, 9, 3, 5)[:rows]]
    np.testing.assert_allclose(found.arrays["logits"], logits_of(model).numpy(), rtol=0, atol=1e-5)
    gradients = found.backward(labels)
    F.cross_entropy(logits_of(model), mg.tensor(np.array(labels))).backward()
    for parameter, p in model.named_parameters():
        expected = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
        np.testing.assert_allclose(gradients.weights[parameter], expected, rtol=0, atol=2e-6)


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
