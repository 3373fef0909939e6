"""The walk-through page in a real browser: each number is the engine's, and what keys and switches do."""

import json
import re

import numpy as np
import pytest
from browser import Watched, chromium

import minigrad as mg
from minitransformer import (
    BART,
    BERT,
    GPT,
    T5,
    BERTConfig,
    GPTConfig,
    T5Config,
    Transformer,
    TransformerConfig,
    ViT,
    ViTConfig,
)  # fmt: skip
from minitransformer.explain import Switches, explain_documents, record
from minitransformer.explain.page import to_html
from minitransformer.layouts import BERT_TOKENS
from minitransformer.models.bart import BARTConfig
from minitransformer.tokenizers import Tokenizer

TEXTS = ["I love you", "the cat sat on the mat", "you love the cat", "a </script> mat"]
HOSTILE = '</script><img src=x onerror=alert(1)> 🐱 שלום "&amp; ' + "cat " * 200
EVERY_STAGE = """
async stages => {
  const found = {};
  const all = [...document.querySelectorAll("#map .stages a")].map(a => a.getAttribute("href"));
  for (const link of stages ?? all) {
    const turned = new Promise(resolve => addEventListener("hashchange", resolve, { once: true }));
    if (location.hash !== link) { location.hash = link; await turned; }
    if (document.querySelector("#screen h2").id !== link.slice(1)) throw new Error(link);
    for (const cell of document.querySelectorAll("#screen [data-key]")) {
      if (/^[aw][vg]:/.test(cell.dataset.key)) found[cell.dataset.key] = cell.textContent;
    }
    const text = document.body.innerText;
    if (/undefined|\\bNaN\\b|\\[object/.test(text)) throw new Error(text);
  }
  return found;
}
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens a page's text; at the end it must have been silent, and have asked for nothing."""
    opened = []

    def open_(text, fragment="", **options):
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(text, encoding="utf-8")
        opened.append(Watched(browser, file, fragment, **options))
        if options.get("java_script_enabled", True):
            opened[-1].page.wait_for_selector("body.ready", timeout=30_000)
        return opened[-1]

    yield open_
    for page in opened:
        page.close()


def scaled(model):
    """Weights that are large enough for every part to matter."""
    generator = np.random.default_rng(0)
    for p in model.parameters():
        p.array[...] += 0.3 * generator.normal(size=p.shape)
    return model.eval()


def sizes(**settings):
    return {"vocab_size": words().vocab_size, **settings}


def words(added=()):
    return Tokenizer.train_word(TEXTS, added=added)


def transformer(**settings):
    mg.manual_seed(0)
    small = {"d_model": 12, "num_heads": 2, "d_ff": 14, "num_encoder_layers": 1, "num_decoder_layers": 2}
    return scaled(Transformer(TransformerConfig(**sizes(dropout=0.0, **small | settings))))


def page_of(model, text="I love you", limit=6, **more):
    tokenizer = more.pop("tokenizer", None) or words()
    after = [tokenizer.end_id] if model.is_encoder_decoder else []
    inputs = more.pop("inputs", {"before": [], "after": after, "marks": [], "strip": True})
    return to_html(model, tokenizer, text, title=text, inputs=inputs, max_length=limit, **more)


def bert():
    tokenizer = words(added=BERT_TOKENS)
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 14}
    model = scaled(BERT(BERTConfig(vocab_size=tokenizer.vocab_size, **small)))
    cls, sep = tokenizer.special_id("[CLS]"), tokenizer.special_id("[SEP]")
    inputs = {"before": [cls], "after": [sep], "marks": ["[MASK]"], "strip": True}
    return page_of(model, "I [MASK] you", tokenizer=tokenizer, inputs=inputs)


def vit():
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 14}
    config = ViTConfig(image_size=4, patch_size=2, num_channels=1, num_labels=3, **small)
    image = np.random.default_rng(0).normal(size=(1, 4, 4))
    return to_html(scaled(ViT(config)), None, "a digit", title="a digit", labels=["0", "1", "2"], image=image)


def families():
    gpt = GPTConfig(**sizes(n_positions=32, n_embd=12, n_layer=2, n_head=2))
    t5 = T5Config(**sizes(d_model=12, d_kv=6, d_ff=14, num_layers=1, num_heads=2))
    yield "gpt", page_of(scaled(GPT(gpt)))
    yield "t5", page_of(scaled(T5(t5)))
    yield "bert", bert()
    ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    one = {"layers": 1, "attention_heads": 2, "ffn_dim": 14}
    both = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in one.items()}
    bart = BARTConfig(**sizes(d_model=12, max_position_embeddings=32, **ends, **both))
    yield "bart", page_of(scaled(BART(bart)))
    yield "vit", vit()


def addresses(page):
    return page.page.locator("#map .stages a").evaluate_all("links => links.map(a => a.getAttribute('href'))")


def number(text):
    return float(text.replace("−", "-").replace("∞", "inf"))


def shown(page, stages=None):
    """Every number of an array on every stage, by the array's kind, its name and the index."""
    return {
        (key[:2], *key[3:].split(":")): text for key, text in page.page.evaluate(EVERY_STAGE, stages).items()
    }


def check_against(found, arrays, kind):
    """To the digits shown, or 1e-5 of the array's scale."""
    checked = 0
    for (of, name, index), text in found.items():
        if of != kind:
            continue
        array = arrays[name]
        expected = float(array[tuple(map(int, index.split(",")))])
        mantissa, _, power = text.partition("e")
        digits = len(mantissa.partition(".")[2])
        unit = 0.5 * 10.0 ** (int(number(power or "0")) - digits)
        scale = np.abs(array[np.isfinite(array)]).max()
        actual = number(text)
        assert actual == expected or abs(actual - expected) <= unit + 1e-5 * scale, (name, index, text)
        checked += 1
    return checked


# ---------------------------------------------------------------- numbers


def test_every_number_is_the_engines_forward_and_backward(open_page):
    model, tokenizer = transformer(), words()
    page = open_page(page_of(model, "you love the cat", target="the mat"))
    page.press("g")
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients, found = expected.backward(labels), shown(page)
    weights = {name: p.numpy() for name, p in model.state_dict().items()}
    assert check_against(found, expected.arrays, "av") > 800
    assert check_against(found, gradients.activations, "ag") > 800
    assert check_against(found, weights | gradients.weights, "wg") > 20
    page.page.evaluate("() => { location.hash = '#softmax'; }")
    page.page.locator("h2#softmax").wait_for()
    assert set(page.texts(".row-sum")) == {"1.000"}


def test_switches_change_the_numbers_as_the_engines(open_page):
    model, tokenizer = transformer(), words()
    path = "decoder.layers.0.self_attention"
    page = open_page(page_of(model, "I love you", target="the mat"), f"#heads:{path}")
    page.page.locator('[data-key="check:head 1"]').click()
    page.page.locator('[data-key="what-if"]').click()
    for key in ("causal", "positions", "scale"):
        page.page.locator(f'[data-key="check:{key}"]').click()
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("I love you"), tokenizer.end_id]
    off = Switches(causal=False, positions=False, scale=False, ablated={path: [1]})
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]], off).arrays
    stages = ["#positions", "#scale", "#mask", "#heads"]
    assert check_against(shown(page, stages), expected, "av") > 100


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
        const index = array.shape.map((n, axis) => ((seed + axis) * 7919) % n);
        const derived = window.derivations[kind](page, name, index).value;
        const actual = array.data[window.offsetOf(array.shape, index)];
        found.push([kind, name, index, String(derived), String(actual)]);
      }
    }
  }
  return found;
}
"""


def exposed(text):
    """The page's text, with its parts in the reach of a test."""
    parts = "{ value: derive, gradient: deriveGradient, weight: deriveWeightGradient }"
    tail = f"Object.assign(window, {{ page, derivations: {parts}, offsetOf: offset }});"
    return text.replace(
        'document.body.classList.add("ready");', f'{tail} document.body.classList.add("ready");'
    )


def model_pages():
    modern = {"norm_first": True, "activation": "swiglu", "positions": "rotary", "norm": "rms_norm"}
    yield "modern", page_of(transformer(**modern, num_kv_heads=1, output_bias=True))
    yield from families()


@pytest.mark.parametrize(("name", "text"), list(model_pages()), ids=lambda x: x if len(x) < 20 else "")
def test_row_times_column_gives_the_number_for_every_array_of_each_family(name, text, open_page):
    page = open_page(exposed(text), bypass_csp=True)
    found = page.page.evaluate(EVERY_DERIVATION)
    assert {kind for kind, *_ in found} == {"value", "gradient", "weight"}
    for kind, array, index, derived, actual in found:
        assert derived is not None, f"the plan lacks {array}"
        derived, actual = float(derived.replace("Infinity", "inf")), float(actual.replace("Infinity", "inf"))
        assert derived == pytest.approx(actual, rel=1e-3, abs=2e-5), (kind, array, index)
    page.press("g")
    assert len(shown(page)) > 200  # every stage is shown, in silence


WALK_CELLS = """
() => {
  const found = [];
  for (const screen of page.screens) {
    page.set({ screen: screen.address, cell: null });
    const keys = [...document.querySelectorAll("#screen td [data-key]")].map(cell => cell.dataset.key);
    for (const key of keys.filter((_, i) => i % 17 === 0 && /^[aw][vg]:/.test(keys[i]))) {
      document.querySelector(`#screen [data-key="${key}"]`).click();
      const panel = document.getElementById("inspector");
      const sums = [...panel.querySelectorAll("tfoot b, .line b")].map(each => each.textContent);
      const lone = [...panel.querySelectorAll("tbody td")].map(each => each.textContent);
      const value = panel.querySelector(".value").textContent;
      found.push([key, value, sums.at(-1) ?? lone.at(-1) ?? null, panel.innerText]);
    }
  }
  return found;
}
"""


def test_a_selected_number_is_the_sum_that_is_shown(open_page):
    page = open_page(exposed(page_of(transformer(), target="the mat")), bypass_csp=True)
    page.press("g")
    found = page.page.evaluate(WALK_CELLS)
    assert len(found) > 100
    for key, value, total, text in found:
        assert "[object" not in text
        if total is None:  # nothing reaches it
            assert key[1] == "v" or number(value) == 0 or "no gradient" in text, (key, text)
        else:
            assert number(total) == pytest.approx(number(value), rel=2e-3, abs=2e-5), (key, text)


# ---------------------------------------------------------------- the file


def test_hostile_text_is_text(open_page):
    page = open_page(page_of(transformer(), HOSTILE, 260, target="</script>"))
    assert len(addresses(page)) > 20
    page.page.evaluate("() => { location.hash = '#tokens'; }")
    page.page.locator("h2#tokens").wait_for()
    assert "<img src=x" in page.text("#screen blockquote")
    page.page.fill("#sentence", "<script>alert(1)</script> 🐱")
    page.page.fill("#sentence", "the cat")
    assert page.page.locator("#screen .tokens tbody tr").count() == 3


def test_shows_a_picture_where_scripts_do_not_run(open_page):
    picture = '<svg role="img"><title>I becomes Je</title></svg>'
    page = open_page(page_of(transformer(), picture=picture), java_script_enabled=False)
    assert page.page.locator("#picture svg title").text_content() == "I becomes Je"
    assert page.page.locator("noscript").is_visible()


def test_only_its_script_runs(open_page):
    text = page_of(transformer())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    data = text[text.index('id="data">') + 10 :]
    assert json.loads(data[: data.index("</script>")])["model_type"] == "transformer"


# ---------------------------------------------------------------- reading it


def test_keys_walk_the_whole_page(open_page):
    page = open_page(page_of(transformer(), "I love you"))
    stages = addresses(page)
    for address in stages[1:]:
        page.press("ArrowRight")
        page.page.locator(f"h2#{address[1:]}").wait_for()
    page.press("ArrowRight", "ArrowLeft")  # the last stage is the last
    page.page.locator(f"h2#{stages[-2][1:]}").wait_for()
    page.page.evaluate("() => { location.hash = '#softmax'; }")
    page.page.locator("h2#softmax").wait_for()
    page.page.locator("#screen table.numbers button").first.focus()
    page.press("ArrowRight", "ArrowDown", "Enter")  # a walk from cell to cell does not turn the page
    assert page.page.locator('#screen [aria-pressed="true"][data-key$=":0,1,1"]').count() == 1
    assert "love" in page.text("#inspector h2")
    page.press("Escape")
    assert page.page.locator("#inspector").is_hidden()


def test_the_quiz_hides_a_number_until_it_is_answered(open_page):
    page = open_page(page_of(transformer()), "#softmax")
    page.press("q")
    asked = page.page.locator("td.asked button")
    assert asked.text_content() == "?"
    assert page.text("#inspector .value") == "?"
    page.page.fill("#answer", "1000")
    page.press("Enter")
    assert page.text(".reply") == "Smaller."
    page.page.locator('[data-key="show"]').click()
    answer = page.text("#inspector .value")
    assert number(answer) != 1000
    page.press("Escape")
    page.page.evaluate("() => { Math.random = () => 0; }")  # asks for the first number of the stage
    page.press("q")
    first = page.page.locator("td.asked button").get_attribute("data-key")
    page.page.locator('[data-key="show"]').click()
    answer = page.text("#inspector .value").replace("−", "-")
    page.press("Escape", "q")
    assert page.page.locator("td.asked button").get_attribute("data-key") == first
    page.page.fill("#answer", answer)
    page.press("Enter")
    assert page.page.locator("td.asked").count() == 0
    assert "Right" in page.text("#announcer")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_is_usable_without_a_mouse_or_eyes_and_on_a_phone(scheme, open_page):
    page = open_page(page_of(transformer()), color_scheme=scheme)
    page.press("g")
    page.page.set_viewport_size({"width": 390, "height": 844})
    addresses = ["#walkthrough", "#wavelengths", "#qkv", "#attention", "#probabilities", "#beams", "#loss"]
    for address in addresses if scheme == "light" else addresses[2::2]:
        page.page.evaluate("hash => { location.hash = hash; }", address)
        page.page.locator(f"h2#{address[1:]}").wait_for()
        assert page.page.evaluate("() => document.documentElement.scrollWidth") <= 390, address
        if address == "#qkv":
            page.page.locator("#screen table.numbers button").nth(3).click()
        if address in ("#walkthrough", "#qkv", "#probabilities", "#loss"):
            assert page.violations() == [], address


# ---------------------------------------------------------------- the command


def test_the_command_writes_a_page_of_a_run_and_keeps_existing_files(cli, here):
    code, out, _ = cli("explain", "mine", "I love you", "-o", "page.html")
    assert (code, out.startswith("page.html: ")) == (0, True)
    text = (here / "page.html").read_text()
    assert "<title>mine: I love you</title>" in text
    assert text.count("<svg") == 1
    code, _, err = cli("explain", "mine", "I love you", "-o", "page.html")
    assert (code, "exists already" in err) == (2, True)
    code, _, err = cli("explain", "-o", "other.html")
    assert (code, "expected a run folder or a preset, got nothing" in err) == (2, True)
    code, _, err = cli("explain", "mine", "-o", "page.svg")
    assert (code, "the walk-through is a page" in err) == (2, True)


def test_the_documents_numbers_stand_beside_ours(open_page):
    page = open_page(explain_documents().page, "#documents")
    sections = page.texts("#screen .example")
    assert len(sections) == 10
    assert [text.count("✗") for text in sections] == [16, 6, 0, 16, 10, 2, 0, 5, 0, 0]
    page.page.evaluate("() => { location.hash = '#scores'; }")
    page.page.locator("h2#scores").wait_for()
    assert page.texts("#screen .printed")[:4] == ["✓ 0.96", "✓ 4.15", "✓ 2.46", "✗ 3.21"]
    assert page.text("#toolbar .answer") == "→ Je t'aime"
