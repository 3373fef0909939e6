"""The model of the walk-through page, in JavaScript, beside the engine: every number, text and token."""

import base64
import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers as hf

from minigrad.graph.modules import join_modules
from minigrad.nn import functional as F
from minitransformer.explain.page import ASSETS
from minitransformer.explain.page import tokenizer_data as page_data
from minitransformer.generation import GenerationConfig
from minitransformer.generation.scoring import log_softmax, processors
from minitransformer.models.protocol import model_class
from minitransformer.tasks.inputs import marked_ids
from minitransformer.tasks.tagging import word_ids
from minitransformer.tasks.translation import PairData, Translation
from minitransformer.text.pretrained_tokenizer import PretrainedTokenizer
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS
from tests.browser import chromium
from tests.tiny import PAIRS

HARNESS = """
const toArray = text => new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
function toText(array) {
  const bytes = new Uint8Array(Float32Array.from(array).buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096));
  return btoa(text);
}
function packed(found) {
  const pack = ([name, array]) => [name, { shape: array.shape, data: toText(array.data) }];
  return Object.fromEntries(Object.entries(found).map(pack));
}
function load(payload) {
  for (const weight of Object.values(payload.weights)) weight.data = toArray(weight.data);
  window.model = createModel(payload);
}
function runAndBackward({ inputs, options, labels, positions }) {
  const found = model.run(inputs, options);
  const gradients = model.backward(found, { labels, positions });
  return {
    order: found.order, arrays: packed(found.arrays), loss: gradients.loss, losses: gradients.losses,
    activations: packed(gradients.activations), weights: packed(gradients.weights),
  };
}
"""


@pytest.fixture(scope="module")
def page():
    """An empty page that has the model's script."""
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(f"<script>{join_modules(ASSETS / 'model' / 'model.js')}\n{HARNESS}</script>")
        yield page


def load(page, model, **more):
    """Makes the page's model."""
    pack = lambda array: base64.b64encode(np.asarray(array, "<f4").tobytes()).decode()
    weights = {
        name: {"shape": list(weight.shape), "data": pack(weight)}
        for name, weight in model.state_dict().items()
    }
    start = getattr(model, "decoder_start_token_id", None)
    payload = {"model_type": model.model_type, "config": asdict(model.config), "weights": weights}
    page.evaluate("payload => load(payload)", {**payload, "start": start, **more})


def tokenizer_data(tokenizer):
    content = json.loads(tokenizer.to_bytes())
    merges = [m.split(" ") if isinstance(m, str) else m for m in content["model"].get("merges", [])]
    return {
        "layout": tokenizer.layout,
        "tokens": [tokenizer.id_to_token[i] for i in range(tokenizer.vocab_size)],
        "merges": merges,
        "special": sorted(tokenizer._special),
        "unk_id": tokenizer.unk_id,
    }


def make(model_type, seed=0, **config):
    """A small model with weights that are large enough for every part to matter."""
    cls = model_class(model_type)
    generator = np.random.default_rng(seed)
    model = cls(cls.config_class(**config))
    for name, p in model.named_parameters():
        noise = generator.normal(size=p.shape)
        p.array[...] = 0.3 * noise if p.ndim > 1 or name.endswith("bias") else 1 + 0.3 * noise
    model.eval()
    return model


# ---------------------------------------------------------------- every activation and gradient


TRANSFORMER = {
    "vocab_size": 11, "d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 1,
    "num_decoder_layers": 2, "max_positions": 9,
}  # fmt: skip
GPT = {"vocab_size": 11, "n_positions": 9, "n_embd": 8, "n_layer": 2, "n_head": 4, "n_inner": 12}


# ---------------------------------------------------------------- new texts


ALL = {"temperature": 2.0, "top_k": 5, "top_p": 0.6}


@pytest.mark.parametrize("options", [{}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.7}, ALL])
@pytest.mark.slow
def test_the_page_distribution_matches_generate(page, options):
    logits = np.random.default_rng(0).normal(scale=2, size=(1, 11)).astype(np.float32)
    logits[0, 3] = logits[0, 5]  # a tie
    scores = logits
    for function in processors(GenerationConfig(do_sample=True, **options), 0, 1, ()):
        scores = function(scores, np.zeros((1, 1), int))
    names = {"temperature": "temperature", "top_k": "topK", "top_p": "topP"}
    settings = {names[name]: value for name, value in options.items()}
    load(page, make("gpt2", **GPT))
    request = [logits[0].tolist(), settings]
    found = page.evaluate("([logits, settings]) => [...model.distribution(logits, settings)]", request)
    assert found == pytest.approx(np.exp(log_softmax(scores))[0].tolist(), rel=1e-6)


def test_samples_follow_the_distribution(page):
    load(page, make("gpt2", **GPT))
    found = page.evaluate("""() => {
      const first = seed => model.generate([5, 6], { sample: true, seed, topK: 3, maxNew: 1 }).ids[0];
      const drawn = Array.from({ length: 600 }, (_, seed) => first(seed));
      const { arrays } = model.run({ source: [5, 6] });
      const distribution = model.distribution(arrays.logits.data.subarray(11), { topK: 3 });
      return { drawn, again: first(7) === drawn[7], distribution: [...distribution] };
    }""")
    shares = np.bincount(found["drawn"], minlength=11) / 600
    assert shares == pytest.approx(found["distribution"], abs=0.06)
    assert found["again"]


# ---------------------------------------------------------------- what is not computed again

COUNTED = """
([first, second]) => {
  let rows = 0;
  for (const weight of model.weights.values()) {
    const products = weight.products.bind(weight);
    const counted = (D, multiply) => x => ((rows += x.length / D), multiply(x));
    weight.products = (x, D, E, from, multiply) => products(x, D, E, from, counted(D, multiply));
  }
  const during = compute => ((rows = 0), compute(), rows);
  const inputs = { source: first, target: null };
  const generated = during(() => {
    const { ids } = model.generate(first, { maxNew: 3 });
    if (model.family.isEncoderDecoder) inputs.target = [model.start, ...ids.slice(0, -1)];
    else inputs.source = [...first, ...ids.slice(0, -1)];
  });
  const recorded = during(() => model.run(inputs));
  let found = null;
  const longer = during(() => (found = model.run({ ...inputs, source: second })));
  return { generated, recorded, longer, found: packed(found.arrays), inputs };
}
"""


@pytest.mark.parametrize(("model_type", "config"), [
    ("gpt2", GPT), ("transformer", TRANSFORMER),
    ("recurrent", {"vocab_size": 11, "embedding_dim": 8, "hidden_size": 8, "num_layers": 2}),
])  # fmt: skip
def test_unchanged_rows_are_not_recomputed(page, model_type, config):
    model = make(model_type, **config)
    load(page, model, start=1)
    first, second = [5, 6, 7, 8], [5, 6, 7, 8, 10]
    counted = page.evaluate(COUNTED, [first, second])
    is_causal = model_type != "transformer"
    words = len(first) - 1 if is_causal else 0  # to continue a text, only its last row is multiplied by them
    assert counted["recorded"] == words
    assert second[-1] not in counted["inputs"]["source"]
    matrices = {
        "gpt2": 2 * 4 + 1,
        "recurrent": 2 + 1,
    }  # only the last row is new; the state before it is known
    assert not is_causal or counted["longer"] == matrices[model_type]
    load(page, model, start=1)
    inputs = {**counted["inputs"], "source": second}
    anew = page.evaluate("inputs => packed(model.run(inputs).arrays)", inputs)
    assert counted["found"] == anew  # to the last bit


# ---------------------------------------------------------------- text

SENTENCES = [side for pair in PAIRS for side in pair]
SPACED = [
    *SENTENCES,
    "two  spaces",
    "日本語のテキスト",
    "नमस्ते दुनिया",
    "a\tb\nc",
    "a▁b",
]  # a word tokenizer would lose these
TOKENIZERS = {
    "word": lambda: Tokenizer.train_word(SENTENCES),
    "spaced word": lambda: Tokenizer.train_word(SPACED),
    "bpe": lambda: Tokenizer.train_bpe(SENTENCES, 300),
    "byte bpe": lambda: Tokenizer.train_bpe(SPACED, 400),
    "wordpiece": lambda: Tokenizer.train_wordpiece(SENTENCES, 300, added=BERT_TOKENS),
    "char": lambda: Tokenizer.train_char(SENTENCES, special_tokens=True),
}
TEXTS = [
    "",
    " ",
    "I love you",
    "Où est le chien ?",
    "Où est le chien\u00a0?",
    "l’homme d'hier -- naïve, e\u0301té!",
    "👩‍👩‍👧 👍🏽 unknown",
    "שלום العربية \u202e x",
    "</script><END>[MASK]<UNK> ##a ▁b",
    "tabs\tand\nlines\r\n  spaces \u0085\ufeff\u200b\u2028",
    "日本語 สวัสดี नमस्ते",
    "x" * 130,
    "1,234.5 €uro $5 a+b=c ~x~ «oui» „ja“ …",
    "\u061d a\u2e43b \U00011660c",  # marks that the library does not take for punctuation
    "ﬁ Ⅻ ½ ² İ ß",
    "\x00\x1f\x1c end \x1d",
]


@pytest.mark.parametrize("layout", TOKENIZERS)
def test_page_ids_and_texts_match_the_tokenizer(page, layout):
    tokenizer = TOKENIZERS[layout]()
    assert tokenizer.layout == layout
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer))
    generator = np.random.default_rng(0)
    parts = [
        *" ".join(SENTENCES[:40]).split(),
        *map(chr, generator.integers(32, 0x3000, 200)),
        "😀",
        "’",
        " ",
        "-",
    ]
    texts = [*TEXTS, *SENTENCES[:10], *("".join(generator.choice(parts, 12)) for _ in range(60))]
    found = page.evaluate(
        "texts => texts.map(model.tokenize, model).map(x => ({ ...x, text: model.decode(x.ids) }))", texts
    )
    for text, ours in zip(texts, found, strict=True):
        expected = tokenizer.encode(text.strip())
        assert ours["ids"] == expected, text
        assert ours["tokens"] == [tokenizer.id_to_token[i] for i in expected]
        assert ours["unknown"] == [i for i, token in enumerate(expected) if token == tokenizer.unk_id]
        assert len(ours["pieces"]) == len(expected)
        assert ours["text"] == tokenizer.decode(expected), text


@pytest.mark.parametrize("lowercase", [True, False])
def test_page_ids_match_a_pretrained_bert_tokenizer(page, lowercase):
    backend = hf.Tokenizer(hf.models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = hf.normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = hf.pre_tokenizers.BertPreTokenizer()
    backend.decoder = hf.decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = hf.trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    backend.train_from_iterator([*SENTENCES, *TEXTS, "北京 北 京"], trainer)
    tokenizer = PretrainedTokenizer(backend, {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"})
    load(page, make("gpt2", **GPT), tokenizer=page_data(tokenizer))
    generator = np.random.default_rng(0)
    letters = [*"abcÀÉÎçßıİ ,.'-", "北", "京", "\x00", "\u200b", "\ufffd", "e\u0301", "Σ", "ǅ", "ﬁ", "\t"]
    texts = [*TEXTS, *SENTENCES[:10], *("".join(generator.choice(letters, 12)) for _ in range(60))]
    found = page.evaluate("texts => texts.map(text => [...model.tokenize(text).ids])", texts)
    assert found == [tokenizer.encode(text.strip()) for text in texts]


def test_characters_outside_the_vocabulary_are_an_error(page):
    tokenizer = Tokenizer.train_char(["abc"])
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), input={"strip": False})
    assert page.evaluate("() => model.sourceIds('cab')") == [2, 0, 1]
    refused = page.evaluate(
        "() => { try { model.tokenize('cat'); } catch (error) { return error.message; } }"
    )
    assert refused == 'The character "t" is not in the vocabulary.\nUse only: abc'


PROBABILITIES = """
([texts, end]) => texts.map(text => {
  const source = model.sourceIds(text);
  const { ids, stopped } = model.generate(source);
  const labels = stopped ? [...ids, end] : ids;
  const { probabilities } = model.run({ source, target: [model.start, ...labels.slice(0, -1)] }).arrays;
  return [source, labels, labels.map((id, t) => probabilities.data[t * probabilities.width + id])];
})
"""


@pytest.mark.slow
def test_page_translations_match_translate(page):
    tokenizer = Tokenizer.train_word(SENTENCES)
    model = make(
        "transformer", seed=1, **TRANSFORMER | {"vocab_size": tokenizer.vocab_size, "output_bias": True}
    )
    model.embedding.output_bias.array[tokenizer.end_id] = 2.5  # so that some end before the limit
    run = SimpleNamespace(
        model=model, tokenizer=tokenizer, recipe=SimpleNamespace(data=PairData(max_length=8))
    )
    input = {"after": [tokenizer.end_id]}
    load(page, model, tokenizer=tokenizer_data(tokenizer), max_length=8, input=input)
    short = [text for text in SENTENCES[::2] if len(tokenizer.encode(text)) < 8][:50]
    for options, settings in (({}, None), ({"num_beams": 3}, {"beams": 3})):
        expected = Translation.translate(run, short, **options)
        ours = """([texts, settings]) => texts.map(model.sourceIds, model).map(ids =>
          model.decode(settings ? model.beams(ids, settings).best : model.generate(ids).ids))"""
        assert page.evaluate(ours, [short, settings]) == expected
        assert len({len(tokenizer.encode(text)) for text in expected}) > 2

    # and how likely each token of them is
    ours = page.evaluate(PROBABILITIES, [short, tokenizer.end_id])
    assert len(ours) == 50
    for source, labels, shares in ours:
        logits = model([source], [[model.decoder_start_token_id, *labels[:-1]]])
        expected = F.softmax(logits, -1).numpy()[0][range(len(labels)), labels]
        np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-5)


def test_page_rejects_texts_it_cannot_encode(page):
    tokenizer = Tokenizer.train_word(SENTENCES)
    input = {"after": [tokenizer.end_id]}
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), max_length=4, input=input)
    refused = "text => { try { return model.sourceIds(text); } catch (error) { return error.message; } }"
    assert page.evaluate(refused, "I love you") == [*tokenizer.encode("I love you"), tokenizer.end_id]
    assert page.evaluate(refused, " ") == "The text has no words.\nType at least one."
    message = "A text of 4 tokens, but this model takes at most 3.\nShorten it."
    assert page.evaluate(refused, "I love you all") == message


def test_marks_in_a_text_are_special_tokens(page):
    tokenizer = TOKENIZERS["wordpiece"]()
    cls, sep, mask = map(tokenizer.special_id, BERT_TOKENS)
    settings = {"before": [cls], "after": [sep], "marks": ["[MASK]"]}
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), input=settings)
    found = page.evaluate("() => model.sourceIds(' I [MASK] you. ')")
    assert found == [cls, *tokenizer.encode("I"), mask, *tokenizer.encode("you."), sep]


MARKED = {  # tokenizers with marks
    "word": lambda: Tokenizer.train_word(SENTENCES, added=BERT_TOKENS),
    "spaced word": lambda: Tokenizer.train_word(SPACED, added=BERT_TOKENS),
    "bpe": lambda: Tokenizer.train_bpe(SENTENCES, 300, added=BERT_TOKENS),
    "byte bpe": lambda: Tokenizer.train_bpe(SPACED, 400, added=BERT_TOKENS),
    "wordpiece": TOKENIZERS["wordpiece"],
    "char": lambda: Tokenizer.train_char(SENTENCES, added=BERT_TOKENS),
}


@pytest.mark.parametrize("layout", MARKED)
def test_text_next_to_a_mask_is_tokenized_as_next_to_a_word(page, layout):
    tokenizer = MARKED[layout]()
    assert tokenizer.layout == layout
    settings = {"marks": ["[MASK]"]}
    load(page, make("gpt2", **GPT), tokenizer=tokenizer_data(tokenizer), input=settings)
    generator = np.random.default_rng(0)
    parts = ["[MASK]", "[MASK]", " ", " ", ".", "’", "'", "-", "love", "The", "e\u0301", " ?", "(", "😀"]
    texts = ["a" + "".join(generator.choice(parts, 8)) + "z" for _ in range(80)]
    found = page.evaluate("texts => texts.map(model.sourceIds, model)", texts)
    for text, ours in zip(texts, found, strict=True):
        assert ours == marked_ids(tokenizer, text, ["[MASK]"]), text


@pytest.mark.parametrize("layout", MARKED)
def test_words_and_brackets_are_tokenized_separately(page, layout):
    tokenizer = MARKED[layout]()
    words = ["The", "well-known", "U.S.", "café,", "(", "'s"]
    data = tokenizer_data(tokenizer)
    load(page, make("gpt2", **GPT), tokenizer=data, input={"reading": "words"})
    expected = [i for word in words for i in word_ids(tokenizer, word)]
    assert page.evaluate("text => model.sourceIds(text)", " ".join(words)) == expected
    load(page, make("gpt2", **GPT), tokenizer=data, input={"reading": "characters"})
    assert page.evaluate("() => model.sourceIds('([ ])')") == tokenizer.encode("( [ ] )")


@pytest.mark.slow
def test_unsupported_models_give_a_clear_message(page):
    refused = """config => {
      try { createModel({ weights: {}, ...config }); } catch (error) { return error.message; }
    }"""
    message = page.evaluate(refused, {"model_type": "seq2seq", "config": {}})
    assert message.startswith("A model of type seq2seq does not run in the page.\nThese do: transformer,")
    message = page.evaluate(refused, {"model_type": "bert", "config": {"head": "question_answering"}})
    assert message.startswith(
        "A BERT with the head question_answering does not run in the page.\nThese do: masked_lm,"
    )
