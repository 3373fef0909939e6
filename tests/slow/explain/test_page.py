"""Every number, stage and screen of the walk-through page."""

import re

import numpy as np
import pytest

import minigrad as mg
from minitransformer import (
    T5,
    Llama,
    LlamaConfig,
    T5Config,
    Transformer,
    TransformerConfig,
    generate,
)  # fmt: skip
from minitransformer.data.phrasebook import phrasebook
from minitransformer.explain import record
from minitransformer.text.tokenizer import Tokenizer
from tests.explain.test_page import (
    STAGE,
    addresses,
    bert,
    check_against,
    check_walked_cells,
    exposed,
    families,
    of,
    page_of,
    scaled,
    shown,
    sizes,
    transformer,
    words,
)

HOSTILE = '</script><img src=x onerror=alert(1)> 🐱 שלום "&amp; ' + "cat " * 200


def shown_in_each_layer_and_head(page, arrays):
    """Every number of the stages inside the layers: of each layer, each head, and of Q, K and V."""
    attentions = of(arrays, "attention.q")
    found = shown(page, [f"#heads:{path}" for path in attentions])
    stages = [f"#{stage}:{path}" for path in attentions for stage in ("scale", "softmax", "weighted-sum")]
    for _ in range(2):
        found |= shown(page, stages)
        for letter in "qk":
            page.page.evaluate(f"link => {{ ({STAGE})(link); }}", f"#qkv:{attentions[0]}")
            page.page.locator(f'[data-key="letter:{letter}"]').click()
            found |= shown(page, [f"#qkv:{path}" for path in attentions])
        page.press("h")  # the next head
    layers = [f"#add-norm:{path}" for path in of(arrays, ".sum")]
    return found | shown(page, [*layers, *(f"#feed-forward:{path}" for path in of(arrays, ".hidden"))])


def test_every_number_matches_the_engine(open_page):
    model = transformer()
    tokenizer = words()
    page = open_page(page_of(model, "you love the cat", target="the mat"))
    page.press("g")
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients = expected.backward(labels)
    found = shown(page)
    found |= shown_in_each_layer_and_head(page, expected.arrays)
    everything = set(expected.arrays) - {"logits", "probabilities"}  # only their largest columns are shown
    assert {name for kind, name, _ in found if kind == "av"} >= everything
    assert {name for kind, name, _ in found if kind == "ag"} >= everything
    for path in of(expected.arrays, ".self_attention.q", ".cross_attention.q"):
        heads = {index[0] for kind, name, index in found if kind == "av" and name == f"{path}.weights"}
        assert heads == {"0", "1"}, path
    weights = {name: p.numpy() for name, p in model.state_dict().items()}
    assert check_against(found, expected.arrays, "av") > 800
    assert check_against(found, gradients.activations, "ag") > 800
    assert check_against(found, weights | gradients.weights, "wg") > 20
    page.page.evaluate("() => { location.hash = '#softmax'; }")
    page.page.locator("h2#softmax").wait_for()
    assert set(page.texts(".row-sum")) == {"1.000"}


TYPED = """
texts => texts.map(text => {
  const input = document.getElementById("sentence");
  input.value = text;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const { data, shape } = page.record.arrays.probabilities;
  return [document.querySelector("#toolbar .answer").textContent, shape, [...data]];
})
"""


def test_fifty_typed_sentences_agree_with_the_engine(open_page):
    pairs = phrasebook().train[:300]
    tokenizer = Tokenizer.train_word([side for pair in pairs for side in pair])
    mg.manual_seed(0)
    small = {"d_model": 12, "num_heads": 2, "d_ff": 14, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = scaled(Transformer(TransformerConfig(tokenizer.vocab_size, output_bias=True, **small)))
    model.embedding.output_bias.array[tokenizer.end_id] += 5  # so that some end before the limit
    known = dict.fromkeys(source for source, _ in pairs)
    texts = [text for text in known if len(tokenizer.encode(text)) < 8][:50]
    page = open_page(exposed(page_of(model, "I", 8, tokenizer=tokenizer)), bypass_csp=True)
    lengths = set()
    for text, (answer, shape, numbers) in zip(texts, page.page.evaluate(TYPED, texts), strict=True):
        source = [*tokenizer.encode(text), tokenizer.end_id]
        (written,) = generate(model, [source], 8)
        assert answer == f"→ {tokenizer.decode(written) or '(nothing)'}", text
        target = [model.decoder_start_token_id, *written][: len(written) + 1][:8]
        expected = record(model, source, target).arrays["probabilities"]
        np.testing.assert_allclose(np.reshape(numbers, shape), expected, rtol=0, atol=1e-5, err_msg=text)
        lengths.add(len(written))
    assert len(texts) == 50
    assert len(lengths) > 2


EVERY_DERIVATION = """
() => {
  page.backward = true;
  const { activations, weights } = page.gradients();
  const kinds = [["value", page.record.arrays], ["gradient", activations], ["weight", weights]];
  const found = [];
  for (const [kind, arrays] of kinds) {
    for (const [name, array] of Object.entries(arrays)) {
      if (kind !== "weight" && !page.plan.has(name)) {
        found.push([kind, name, [], null, null]);
        continue;
      }
      for (let seed = 1; seed < 4; seed++) {
        let index = array.shape.map((n, axis) => ((seed + axis) * 7919) % n);
        if (kind === "weight" && seed === 1) index = window.placeOfLargest(array); // many may be 0
        const derived = window.derivations[kind](page, name, index).value;
        const actual = array.data[window.offsetOf(array.shape, index)];
        found.push([kind, name, index, String(derived), String(actual)]);
      }
    }
  }
  return found;
}
"""


def model_pages():
    modern = {"norm_first": True, "activation": "swiglu", "positions": "rotary", "norm": "rms_norm"}
    yield "modern", page_of(transformer(**modern, num_kv_heads=1, output_bias=True))
    gated = {"d_model": 12, "d_kv": 6, "d_ff": 14, "num_layers": 1, "num_heads": 2}
    yield "gated t5", page_of(scaled(T5(T5Config(**sizes(feed_forward_proj="gated-silu", **gated)))))
    yield "marian", page_of(transformer(positions="sinusoidal_halves", activation="silu", output_bias=True))
    llama = LlamaConfig(
        **sizes(hidden_size=12, intermediate_size=14, num_hidden_layers=1, num_attention_heads=2),
        rope_type="llama3", rope_factor=8.0, original_max_position_embeddings=16, rope_theta=100.0,
    )  # fmt: skip
    yield "llama 3", page_of(scaled(Llama(llama)))
    distil = {"type_vocab_size": 0, "pooler_hidden_act": "relu"}
    yield "distilbert", bert("classification", labels=["thing", "place"], **distil)
    yield from families()


@pytest.mark.parametrize(("name", "text"), list(model_pages()), ids=lambda x: x if len(x) < 20 else "")
def test_row_times_column_derivations_give_every_number(name, text, open_page):
    page = open_page(exposed(text), bypass_csp=True)
    found = page.page.evaluate(EVERY_DERIVATION)
    assert {kind for kind, *_ in found} == {"value", "gradient", "weight"}
    for kind, array, index, derived, actual in found:
        assert derived is not None, f"the plan lacks {array}"
        derived = float(derived.replace("Infinity", "inf"))
        actual = float(actual.replace("Infinity", "inf"))
        assert derived == pytest.approx(actual, rel=1e-3, abs=2e-5), (kind, array, index)
    page.press("g")
    assert len(shown(page)) > 200  # every stage is shown, in silence


LARGEST = f"""
() => [...document.querySelectorAll("#map .stages a")].map(a => a.getAttribute("href")).map(link => {{
  const screen = ({STAGE})(link);
  return [link, screen.querySelectorAll("*").length, document.documentElement.scrollWidth];
}})
"""


TOKENS = f"() => ({STAGE})('#tokens').querySelectorAll('[aria-label=Tokens] tbody tr').length"


def test_hostile_and_long_texts_are_escaped_on_every_stage(open_page):
    model = transformer(num_decoder_layers=1)
    page = open_page(page_of(model, HOSTILE, 260, target="</script> the mat " * 12))
    assert page.page.evaluate(TOKENS) > 200
    assert "<img src=x" in page.text("#screen blockquote")
    page.press("g")
    stages = page.page.evaluate(LARGEST)
    assert len(stages) > 20
    assert [stage for stage in stages if stage[1] > 9000 or stage[2] > 1440] == []
    sliders = {"#alignment": "First row of Alignment", "#pull": "First column of Pull on encoder.input"}
    for stage, slider in sliders.items():
        page.page.evaluate(f"link => {{ ({STAGE})(link); }}", stage)
        before = page.texts("#screen tbody tr:first-child")
        page.page.get_by_label(slider).first.focus()
        page.press("End")
        assert page.texts("#screen tbody tr:first-child") != before
    page.page.fill("#sentence", "<script>alert(1)</script> 🐱")
    page.page.fill("#sentence", "the cat")
    assert page.page.evaluate(TOKENS) == 3


VIOLATIONS = f"""
async ([links, rules]) => {{
  const found = [];
  for (const link of links) {{
    ({STAGE})(link);
    const {{ violations }} = await axe.run("main", {{ resultTypes: ["violations"], ...rules }});
    found.push(...violations.map(each => [link, each.id, each.nodes.map(node => node.html).slice(0, 3)]));
  }}
  return found;
}}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_phone(scheme, open_page):
    page = open_page(page_of(transformer()), color_scheme=scheme)
    page.press("g")
    page.page.set_viewport_size({"width": 390, "height": 844})
    if scheme == "light":
        assert {width for _, _, width in page.page.evaluate(LARGEST)} == {390}
    dark = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    page.page.evaluate(f"() => {{ ({STAGE})('#qkv'); }}")
    page.page.locator("#screen table.numbers button").nth(3).click()
    assert page.violations(**dark) == []  # on the whole page
    links = addresses(page)
    assert page.page.evaluate(VIOLATIONS, [links[::4], dark]) == []
    if scheme == "light":  # all stages; their colours are the same
        colours = {"rules": {"color-contrast": {"enabled": False}}}
        assert page.page.evaluate(VIOLATIONS, [links, colours]) == []


def test_similarity_numbers_equal_their_displayed_sums(open_page):
    text = bert("similarity", labels=["I love you", "you see me"])
    keys = check_walked_cells(open_page(exposed(text), bypass_csp=True))
    assert {"head.average", "head.unit"} <= {re.split("[:|/]", key)[1] for key in keys}
