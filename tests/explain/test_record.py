"""The walk-through's numbers are the engine's: the record, the static picture, the page of a run."""

import re
from dataclasses import replace
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import BART, BERT, GPT, T5, Transformer, ViT, generate, record_attention
from minitransformer.errors import UserError
from minitransformer.explain import Switches, explain, record
from minitransformer.explain.documents import documents_model
from minitransformer.explain.picture import static_picture
from minitransformer.explain.runs import compared_with
from minitransformer.explain.structure import structure
from minitransformer.layers.config import ACTIVATIONS
from minitransformer.models.bart import BARTConfig
from minitransformer.models.bert import BERTConfig
from minitransformer.models.gpt import GPTConfig
from minitransformer.models.llama import Llama, LlamaConfig
from minitransformer.models.presets import preset
from minitransformer.models.recurrent import RecurrentConfig, RecurrentLM
from minitransformer.models.t5 import FEED_FORWARDS, T5Config
from minitransformer.models.transformer import TransformerConfig
from minitransformer.models.vit import ViTConfig
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS, MASK

SOURCE = [5, 6, 7, 3]
TARGET = [2, 8, 9]
LABELS = [8, 9, 3]


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
    slow = {"rope_type": "llama3", "rope_factor": 8.0, "original_max_position_embeddings": 8}
    yield "llama 3", Llama(replace(llama, **slow)).eval()
    t5 = T5Config(
        vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=1, num_heads=2,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    yield "t5", T5(t5).eval()
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
    yield "bert", BERT(BERTConfig(vocab_size=11, **sizes)).eval()
    for head in ("classification", "token_classification", "next_sentence"):
        yield head, BERT(BERTConfig(vocab_size=11, head=head, **sizes)).eval()
    distil = {"type_vocab_size": 0, "pooler_hidden_act": "relu", "head": "classification"}
    yield "distilbert", BERT(BERTConfig(vocab_size=11, **distil, **sizes)).eval()
    tied = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    yield "tied t5", T5(T5Config(vocab_size=11, **tied)).eval()
    yield "tied t5, not scaled", T5(T5Config(vocab_size=11, scale_decoder_outputs=False, **tied)).eval()
    yield "marian", transformer(positions="sinusoidal_halves", activation="silu", output_bias=True)
    bart = {
        "encoder_layers": 1, "encoder_ffn_dim": 12, "encoder_attention_heads": 2, "decoder_layers": 1,
        "decoder_ffn_dim": 12, "decoder_attention_heads": 2, "max_position_embeddings": 9,
    }  # fmt: skip
    yield "bart", BART(BARTConfig(vocab_size=11, d_model=8, dropout=0.0, **bart)).eval()
    for kind in ("lstm", "gru", "rnn"):
        yield kind, RecurrentLM(RecurrentConfig(11, embedding_dim=8, hidden_size=8, rnn_type=kind)).eval()
    yield "vit", ViT(ViTConfig(image_size=6, patch_size=3, num_channels=2, num_labels=3, **sizes)).eval()


IMAGE = np.random.default_rng(0).normal(size=(2, 6, 6)).astype(np.float32)


def logits_of(model):
    if model.is_encoder_decoder:
        return model([SOURCE], [TARGET])[0]
    logits = model(IMAGE[None]) if isinstance(model, ViT) else model([SOURCE])
    return logits[0] if logits.ndim == 3 else logits


@pytest.mark.parametrize(("name", "model"), list(models()), ids=lambda x: x if isinstance(x, str) else "")
def test_the_record_matches_the_model_and_its_gradients(name, model):
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


@pytest.mark.parametrize("name", FEED_FORWARDS)
def test_the_page_explains_the_activation_of_t5(name):
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    model = T5(T5Config(vocab_size=11, feed_forward_proj=name, **sizes))
    layer = next(iter(model.encoder.layers.children())).feed_forward
    explained = structure(model)["stacks"][0]
    x = mg.tensor(np.linspace(-3, 3, 7, dtype=np.float32))
    assert (ACTIVATIONS[explained["activation"]](x).numpy() == layer.activation(x).numpy()).all()
    assert explained["gated"] == name.startswith("gated")


def test_switches_change_only_what_they_name():
    model = transformer()
    path = "encoder.layers.0.self_attention"
    whole = record(model, SOURCE, TARGET).arrays
    off = record(model, SOURCE, TARGET, Switches(causal=False, positions=False, ablated={path: [1]})).arrays
    assert np.isneginf(whole["decoder.layers.0.self_attention.masked"][:, 0, 1:]).all()
    assert np.isfinite(off["decoder.layers.0.self_attention.masked"]).all()
    assert not off["encoder.positions"].any()
    assert not off[f"{path}.heads"][1].any()
    assert off[f"{path}.heads"][0].any()


def test_without_memory_a_state_depends_only_on_its_token():
    model = RecurrentLM(RecurrentConfig(11, embedding_dim=8, hidden_size=8, num_layers=1)).eval()
    together = record(model, [5, 6], switches=Switches(memory=False)).arrays["layers.0.hidden"]
    np.testing.assert_allclose(together[1], record(model, [6]).arrays["layers.0.hidden"][0], rtol=1e-6)
    assert abs(record(model, [5, 6]).arrays["layers.0.hidden"][1] - together[1]).max() > 1e-3


def test_recurrent_gradients_flow_back_to_earlier_steps():
    model = RecurrentLM(RecurrentConfig(11, embedding_dim=8, hidden_size=8, num_layers=1)).eval()
    gradients = record(model, SOURCE).backward([*LABELS, 5], positions=[3]).activations
    assert np.abs(gradients["layers.0.cell"]).max(1).min() > 0  # the last loss reaches every step
    assert not gradients["layers.output"][:3].any()


def test_unselected_positions_have_no_gradient():
    gradients = record(transformer(), SOURCE, TARGET).backward(LABELS, positions=[1])
    np.testing.assert_allclose(gradients.loss, gradients.losses[1], rtol=1e-6)
    assert not gradients.activations["logits"][[0, 2]].any()
    assert not gradients.activations["decoder.input"][2].any()  # later than the loss


# ---------------------------------------------------------------- the static picture


TOKENIZER = Tokenizer.train_word(["I love you", "the cat sat on the mat"], added=BERT_TOKENS)


def drawn(picture):
    """The texts, the probabilities and the weights that a picture shows."""
    texts = [text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    shares = [float(text.removesuffix(" %")) / 100 for text in texts if text.endswith(" %")]
    return texts, shares, [float(text) for text in texts if re.fullmatch(r"[01]\.\d\d", text)]


def small(family, config, **settings):
    mg.manual_seed(0)
    model = family(config(**settings)).eval()
    for p in model.parameters():  # far from uniform
        p.array[...] += 0.5 * np.random.default_rng(p.shape[0]).normal(size=p.shape)
    return model


BERT_SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}


def last_weights(model, *inputs):
    """The probabilities, and the mean of the last attention's heads: the model's own."""
    with record_attention(model) as maps:
        output = model(*inputs)
    shares = F.softmax(getattr(output, "logits", output), -1).numpy()[0]
    return shares, [*maps.values()][-1].numpy()[0].mean(0)


def check(picture, shares, weights, words):
    texts, shown_shares, shown_weights = drawn(picture)
    np.testing.assert_allclose(shown_shares, shares, atol=6e-4)
    np.testing.assert_allclose(shown_weights, weights, atol=6e-3)
    assert set(words) <= set(texts)


def test_the_picture_of_a_translator_shows_its_alignment():
    size = TOKENIZER.vocab_size
    model = small(Transformer, TransformerConfig, vocab_size=size, d_model=8, num_heads=2, d_ff=12)
    source = [*TOKENIZER.encode("I love you"), TOKENIZER.end_id]
    written = [*generate(model, [source], 12)[0], TOKENIZER.end_id][:12]
    shares, weights = last_weights(model, [source], [[model.decoder_start_token_id, *written[:-1]]])
    picture = static_picture(model, TOKENIZER, source)
    check(picture, shares[range(len(written)), written], weights.ravel(), ["I", "love", "you", "<END>"])


def test_the_picture_of_a_language_model_shows_its_attention():
    size = TOKENIZER.vocab_size
    model = small(GPT, GPTConfig, vocab_size=size, n_positions=32, n_embd=8, n_layer=1, n_head=2)
    source = TOKENIZER.encode("the cat sat on the mat")
    (written,) = generate(model, [source], 8)
    read = [*source, *written[:-1]]
    shares, weights = last_weights(model, [read])
    rows = range(len(source) - 1, len(read))
    expected = [w for t in rows for w in weights[t, max(0, len(read) - 12) : t + 1]]
    check(static_picture(model, TOKENIZER, source), shares[rows, written], expected, ["mat"])


def test_the_picture_of_a_recurrent_model_shows_dependence():
    sizes = {"vocab_size": TOKENIZER.vocab_size, "embedding_dim": 8, "hidden_size": 8, "num_layers": 1}
    model = small(RecurrentLM, RecurrentConfig, **sizes)
    source = TOKENIZER.encode("the cat sat")
    (written,) = generate(model, [source], 8)
    read = [*source, *written[:-1]]
    x = model.embedding([read]).detach().requires_grad_()
    logits = model.logits(model.rnn(x)[0])[0]
    expected = []
    for t, word in enumerate(written, start=len(source) - 1):
        loss = F.cross_entropy(logits[t : t + 1], mg.tensor(np.array([word])))
        (gradient,) = mg.autograd.grad(loss, [x], retain_graph=True)
        lengths = np.linalg.norm(gradient.numpy()[0, : t + 1], axis=-1)
        expected += [*(lengths / lengths.sum())]
    shares = F.softmax(logits, -1).numpy()[range(len(source) - 1, len(read)), written]
    check(static_picture(model, TOKENIZER, source), shares, expected, ["cat"])


@pytest.mark.parametrize("head", ["masked_lm", "classification", "token_classification"])
def test_the_picture_of_an_encoder_shows_its_predictions(head):
    labels = [] if head == "masked_lm" else ["thing", "place"]
    model = small(BERT, BERTConfig, vocab_size=TOKENIZER.vocab_size, head=head, num_labels=2, **BERT_SIZES)
    special = TOKENIZER.special_id
    source = [special("[CLS]"), *TOKENIZER.encode("I love"), special(MASK), special("[SEP]")]
    shares, weights = last_weights(model, [source])
    if head == "token_classification":
        expected = shares.max(-1)
        words = [labels[i] for i in shares.argmax(-1)]
    else:
        row = shares[3] if head == "masked_lm" else shares
        best = np.argsort(-row)[:5]
        expected = row[best]
        weights = weights[3 if head == "masked_lm" else 0]
        words = [labels[i] if labels else TOKENIZER.id_to_token[i] for i in best]
    check(static_picture(model, TOKENIZER, source, labels, [MASK]), expected, weights.ravel(), words)


def test_the_picture_of_an_image_shows_where_the_model_looks():
    model = small(ViT, ViTConfig, image_size=6, patch_size=3, num_channels=2, num_labels=3, **BERT_SIZES)
    shares, weights = last_weights(model, IMAGE[None])
    picture = static_picture(model, None, IMAGE.ravel(), ["cat", "dog", "mat"])
    check(picture, sorted(shares, reverse=True), weights[0, 1:], ["cat", "dog", "mat"])
    assert picture.count('fill="rgb(') == 36  # pixels


# ---------------------------------------------------------------- a run


def test_an_explanation_of_a_run_is_shown_and_saved(here):
    found = explain("mine", "I love you")
    assert repr(found).startswith('<Explanation "mine: I love you": a page of 0.')
    found.save("page.html")
    assert (here / "page.html").read_text(encoding="utf-8") == found.page
    assert 'title="mine: I love you" sandbox="allow-scripts"' in found._repr_html_()
    assert found.picture.startswith("<svg")
    with pytest.raises(
        UserError, match=r"page.svg is not the name of an HTML page.\nUse a name such as page.html"
    ):
        found.save("page.svg")
    for text in ("", "  "):
        with pytest.raises(UserError, match="mine reads a text, got an empty one"):
            explain("mine", text)
    with pytest.raises(UserError, match="the input has 601 tokens, but this run takes at most"):
        explain("mine", "I " * 600)


def test_the_toy_preset_matches_the_model_worked_by_hand():
    model, words = documents_model()
    assert model.config == preset("toy")
    assert words[:4] == ["<START>", "I", "love", "you"]
    assert model.embedding.weight.shape == model.output.weight.shape == (10, 4)  # each state gets ten scores


def test_candidate_vectors_are_scaled_by_twenty():
    vectors = np.array([[0.6, 0.8], [1.0, 0.0]], np.float32)
    run = SimpleNamespace(task=SimpleNamespace(vectors=lambda run, texts: vectors))
    model = SimpleNamespace(head=mg.nn.Module())
    with compared_with(run, model, ["a", "b"]):
        np.testing.assert_allclose(model.head.candidates.numpy(), 20 * vectors)
    assert not hasattr(model.head, "candidates")
