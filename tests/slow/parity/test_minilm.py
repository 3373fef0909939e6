"""The real all-MiniLM-L6-v2: tokens, sentence vectors and attention are those of transformers."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minitransformer import load_pretrained, record_attention, save_pretrained
from minitransformer.data.splits import phrasebook_splits
from minitransformer.pretrained import PretrainedWarning
from minitransformer.pretrained.tokenizers import load_tokenizer

from ...minilm import minilm_folder
from .from_transformers import transformers

pytestmark = pytest.mark.parity

STRANGE = [
    "Ça va? Où est l'hôtel — près d'ici…", "ΑΒΓ, ß and İ: ﬁne!", "北京 and 東京", "naïve café\u0301",
    "a\u00a0b\u200bc\td", "don't, can't; it's 3.14%", "[CLS] is a word here", "🙂🙃 emoji", "x" * 120,
    "UPPER lower MiXeD", "http://example.org/a?b=c&d=e", "¿Qué? ¡Sí!", "\x00control\x07", "1234567890 " * 9,
]  # fmt: skip


def sentences():
    """200 sentences: English and French of the phrasebook, and some with unusual characters."""
    pairs = phrasebook_splits()["train"][:400:4]
    return [*STRANGE, *(text for pair in pairs for text in pair)][:200]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return minilm_folder(tmp_path_factory.mktemp("minilm"))


@pytest.fixture(scope="module")
def ours(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PretrainedWarning)  # the pooler is not used
        return load_pretrained(folder)


@pytest.fixture(scope="module")
def theirs(folder):
    return transformers().AutoModel.from_pretrained(folder, attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def their_tokenizer(folder):
    return transformers().AutoTokenizer.from_pretrained(folder)


def their_vectors(model, tokenizer, texts):
    import torch

    batch = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1).numpy()


def test_200_sentences_have_the_same_tokens_and_vectors(folder, ours, theirs, their_tokenizer):
    texts = sentences()
    assert len(texts) == 200
    tokenizer = load_tokenizer(folder)
    ids = [tokenizer.encode_with_special_tokens(text) for text in texts]
    plain = [i for i, text in enumerate(texts) if "[CLS]" not in text]  # it is a special token there
    assert [ids[i] for i in plain] == their_tokenizer([texts[i] for i in plain])["input_ids"]
    width = max(map(len, ids))
    with mg.no_grad():
        vectors = ours(np.array([row + [0] * (width - len(row)) for row in ids])).numpy()
    cosines = (vectors[plain] * their_vectors(theirs, their_tokenizer, [texts[i] for i in plain])).sum(1)
    assert cosines.min() > 0.99999


def test_vectors_of_similar_sentences_are_close(folder, ours):
    tokenizer = load_tokenizer(folder)
    texts = "A man is eating food.", "Someone is having a meal.", "The girl plays the violin."
    a, b, c = (ours([tokenizer.encode_with_special_tokens(text)]).numpy()[0] for text in texts)
    assert a @ b > 0.6 > 0.2 > a @ c


def test_recorded_attention_matches_transformers(folder, ours, theirs):
    import torch

    ids = [load_tokenizer(folder).encode_with_special_tokens("The cat sat on the mat.")]
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), output_attentions=True).attentions
    with record_attention(ours) as weights:
        ours(ids)
    assert len(weights) == len(expected) == 6
    for actual, layer in zip(weights.values(), expected, strict=True):
        np.testing.assert_allclose(np.asarray(actual.detach()), layer.numpy(), rtol=0, atol=1e-5)


def test_an_exported_model_has_the_same_vectors(ours, theirs, their_tokenizer, tmp_path):
    save_pretrained(ours, tmp_path / "back")
    again = transformers().AutoModel.from_pretrained(tmp_path / "back").eval()
    texts = sentences()[:8]
    np.testing.assert_allclose(
        their_vectors(again, their_tokenizer, texts), their_vectors(theirs, their_tokenizer, texts), atol=1e-6
    )
