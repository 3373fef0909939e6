"""The walk-through page in a real browser: each number is the engine's, and what keys and switches do."""

import json
import re

import numpy as np
import pytest

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
    attention_distance,
    attention_entropy,
    logit_lens,
)  # fmt: skip
from minitransformer.explain import Switches, explain_documents, record
from minitransformer.explain.page import to_html
from minitransformer.layouts import BERT_TOKENS
from minitransformer.models.bart import BARTConfig
from minitransformer.tokenizers import Tokenizer

TEXTS = ["I love you", "the cat sat on the mat", "you love the cat", "a </script> mat"]
HOSTILE = '</script><img src=x onerror=alert(1)> 🐱 שלום "&amp; ' + "cat " * 200
STAGE = """
link => {
  if (decodeURIComponent(location.hash) !== link) {
    history.replaceState(null, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
  const screen = document.getElementById("screen");
  if (screen.querySelector("h2").id !== link.slice(1).split(":")[0]) throw new Error(link);
  for (const part of [screen, document.getElementById("map"), document.getElementById("toolbar")]) {
    if (/undefined|NaN|\\[object/.test(part.textContent)) throw new Error(part.textContent);
  }
  return screen;
}
"""
NUMBERS = f"""
stages => {{
  const found = {{}};
  const all = [...document.querySelectorAll("#map .stages a")].map(a => a.getAttribute("href"));
  for (const link of stages ?? all) {{
    for (const cell of ({STAGE})(link).querySelectorAll("[data-key]")) {{
      if (/^[aw][vg]:/.test(cell.dataset.key)) found[cell.dataset.key] = cell.textContent;
    }}
  }}
  return found;
}}
"""
TABLES = f"""
link => [...({STAGE})(link).querySelectorAll("table")].map(table =>
  [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent)))
"""


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


def bert(head="masked_lm", labels=()):
    tokenizer = words(added=BERT_TOKENS)
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 14}
    small |= {"vocab_size": tokenizer.vocab_size, "head": head, "num_labels": len(labels) or 2}
    model = scaled(BERT(BERTConfig(**small)))
    cls, sep = tokenizer.special_id("[CLS]"), tokenizer.special_id("[SEP]")
    inputs = {"before": [cls], "after": [sep], "marks": ["[MASK]"], "strip": True}
    return page_of(model, "I [MASK] you", tokenizer=tokenizer, inputs=inputs, labels=labels)


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
    return {(key[:2], *key[3:].split(":")): text for key, text in page.page.evaluate(NUMBERS, stages).items()}


def of(arrays, *ends):
    """The paths of the arrays with these ends."""
    return [name.rpartition(".")[0] for name in arrays if name.endswith(ends)]


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
    found |= shown_in_each_layer_and_head(page, expected.arrays)
    everything = set(expected.arrays) - {"logits", "probabilities"}  # of these, the largest columns are shown
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


def agrees(text, expected):
    """To the digits shown, or 1e-5: a number, or a percentage."""
    assert text != "< 0.1 %" or expected < 1e-3
    if text == "< 0.1 %":
        return True
    scale = 100 if text.endswith(" %") else 1
    digits = text.removesuffix(" %").partition("e")[0]
    power = int(number(text.removesuffix(" %").partition("e")[2] or "0"))
    unit = 0.5 * 10.0 ** (power - len(digits.partition(".")[2]))
    return abs(number(text.removesuffix(" %")) - scale * expected) <= unit + 1e-5 * max(scale, abs(expected))


def all_agree(shown_rows, expected_rows):
    assert len(shown_rows) == len(expected_rows)
    for texts, values in zip(shown_rows, expected_rows, strict=True):
        assert len(texts) == len(values)
        wrong = [(text, float(x)) for text, x in zip(texts, values, strict=True) if not agrees(text, x)]
        assert wrong == []
    return True


def test_bars_losses_alignment_pull_and_layers_show_the_engines_numbers(open_page):
    model, tokenizer = transformer(output_bias=True), words()
    page = open_page(page_of(model, "you love the cat", target="the mat"))
    tables = lambda stage: page.page.evaluate(TABLES, stage)
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients, p = expected.backward(labels), expected.arrays["probabilities"]
    chosen = p[range(3), labels]
    name = lambda i: tokenizer.id_to_token[i].replace(" ", "␣")

    # probabilities of the right words, of the likeliest next words, and losses
    (written,) = tables("#walkthrough")
    assert [row[0] for row in written] == [name(i) for i in labels]
    all_agree([[row[2] for row in written]], [chosen])
    likeliest = np.argsort(-p[0], kind="stable")[:12]
    bars, numbers = tables("#probabilities")
    assert [row[0] for row in bars] == [name(i) for i in likeliest]
    all_agree([[row[2] for row in bars], numbers[0][1:]], [p[0, likeliest], p[0, likeliest[:8]]])
    losses, pulls = tables("#loss")
    assert [row[2] for row in losses] == [name(i) for i in labels]
    all_agree([row[3:] for row in losses], np.stack([chosen, gradients.losses], 1))
    assert agrees(page.text(".mean-loss"), gradients.loss)
    g = gradients.activations["logits"][0]
    largest = np.argsort(-abs(g), kind="stable")[:8]
    assert [row[0] for row in pulls] == [name(i) for i in largest]
    all_agree([[row[2] for row in pulls]], [g[largest]])

    # alignment: the mean of the heads; then one head
    page.page.evaluate(TABLES, "#alignment")
    (aligned,) = tables("#alignment:decoder.layers.1.cross_attention")
    weights = expected.arrays["decoder.layers.1.cross_attention.weights"]
    all_agree([row[2:] for row in aligned], weights.mean(0))
    page.page.locator('[data-key="choice:Head"]').select_option("1")
    all_agree([row[2:] for row in tables("#alignment")[0]], weights[1])

    # what a head would attend to without scaling and with it; how far it looks, and at how many words
    path = "encoder.layers.0.self_attention"
    scores = expected.arrays[f"{path}.scores"][0, 0]
    *_, unscaled, scaled_ = tables(f"#scale:{path}")
    both = [np.exp(x - x.max()) / np.exp(x - x.max()).sum() for x in (scores, scores / 6**0.5)]
    all_agree([[row[2] for row in bars] for bars in (unscaled, scaled_)], both)
    page.page.evaluate(TABLES, f"#heads:{path}")
    weights = expected.arrays[f"{path}.weights"]
    seen = zip(2 ** attention_entropy(weights), attention_distance(weights), strict=True)
    summaries = [re.findall(r"[\d.]+", text) for text in page.texts(".head p")]
    all_agree(summaries, [*seen])

    # the words whose vectors are alike
    E = model.embedding.weight.numpy().astype(float)
    cosines = E @ E[source[0]] / np.linalg.norm(E, axis=-1) / np.linalg.norm(E[source[0]])
    nearest = [i for i in np.argsort(-cosines, kind="stable") if i != source[0]][:6]
    *_, alike = tables("#embeddings")
    assert [row[0] for row in alike] == [name(i) for i in nearest]
    all_agree([[row[2] for row in alike]], [cosines[nearest]])

    # which word's loss pulls where, and the length of each gradient
    alone = [expected.backward(labels, positions=[t]).activations for t in range(3)]
    for stack, table in zip(("encoder", "decoder"), tables("#pull"), strict=True):
        lengths = [np.linalg.norm(each[f"{stack}.input"], axis=-1) for each in alone]
        all_agree([row[1:] for row in table], lengths)
    along, heaviest = tables("#backward")
    lengths = {"logits": "logits", "encoder: input": "encoder.input", "decoder: output": "decoder.output"}
    for row in along:
        if row[0] in lengths:
            assert agrees(row[2], np.linalg.norm(gradients.activations[lengths.pop(row[0])]))
    assert not lengths
    all_agree(
        [[row[2] for row in heaviest]], [[np.linalg.norm(gradients.weights[row[0]]) for row in heaviest]]
    )

    # what each layer would say, were it the last
    lens = logit_lens(model, [source], [[tokenizer.start_id, *labels[:-1]]])
    (layers,) = tables("#layers")
    for row, probabilities in zip(layers, lens.values(), strict=True):
        q = probabilities.numpy()[0, 0]
        best = np.argsort(-q, kind="stable")[:3]
        texts = re.findall(r"(\S+) ((?:< )?[\d.]+ %)", row[3])
        assert [word for word, _ in texts] == [name(i) for i in best]
        all_agree([[text for _, text in texts]], [q[best]])


@pytest.mark.parametrize("family", ["gpt", "bert"])
def test_the_last_layer_says_what_the_model_says(family, open_page):
    page = open_page(dict(families())[family])
    last = page.page.evaluate(TABLES, "#layers")[0][-1][3]
    said = page.page.evaluate(TABLES, "#probabilities")[0][:3]
    assert last == "".join(f"{word} {share}" for word, _, share in said)


def test_a_masked_word_is_a_gap_until_it_is_filled_in(open_page):
    page = open_page(bert(), "#tokens")
    assert page.page.locator("#screen .note").count() == 0  # no token is unknown
    for text, title in (("I [MASK] you", "Fills the gap"), ("I love you", "Says of “␣love”")):
        page.page.fill("#sentence", text)
        page.page.evaluate(f"() => {{ ({STAGE})('#walkthrough'); }}")
        assert page.texts(".journey h3") == ["Reads", title]
        counts = page.page.evaluate(f"() => ({STAGE})('#loss').querySelectorAll('td :checked').length")
        assert counts == (1 if "[" in text else 5)
    page.page.fill("#sentence", "I zebra you")
    assert "1 of the tokens" in page.page.evaluate(f"() => ({STAGE})('#tokens').textContent")


def test_a_classifier_says_and_learns_classes(open_page):
    page = open_page(bert("classification", labels=["thing", "place"]))
    assert "which class it belongs to" in page.text(".thought")
    page.page.evaluate(f"() => {{ ({STAGE})('#logits'); }}")
    page.press("g")
    page.page.locator('[data-key^="ag:logits"]').first.click()
    best = page.text("#toolbar .answer").removeprefix("→ ")
    assert f"the right class “{best}”" in page.text("#inspector .equation")


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


PLACE_OF_LARGEST = """
function placeOfLargest({ shape, data }) {
  let at = data.reduce((best, x, i) => (Math.abs(x) > Math.abs(data[best]) ? i : best), 0);
  return shape.toReversed().map(n => [at % n, (at = Math.floor(at / n))][0]).toReversed();
}
"""


def exposed(text):
    """The page's text, with its parts in the reach of a test."""
    parts = "{ value: derive, gradient: deriveGradient, weight: deriveWeightGradient }"
    tail = f"Object.assign(window, {{ page, derivations: {parts}, offsetOf: offset, placeOfLargest }});"
    tail = PLACE_OF_LARGEST + tail
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
    for (const key of keys.filter((_, i) => i % 19 === 0 && /^[aw][vg]:/.test(keys[i]))) {
      document.querySelector(`#screen [data-key="${key}"]`).click();
      const panel = document.getElementById("inspector");
      const sums = [...panel.querySelectorAll("tfoot b, .line b")].map(each => each.textContent);
      const lone = [...panel.querySelectorAll("tbody td")].map(each => each.textContent);
      const value = panel.querySelector(".value").textContent;
      found.push([key, value, sums.at(-1) ?? lone.at(-1) ?? null, panel.textContent]);
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


LARGEST = f"""
() => [...document.querySelectorAll("#map .stages a")].map(a => a.getAttribute("href")).map(link => {{
  const screen = ({STAGE})(link);
  return [link, screen.querySelectorAll("*").length, document.documentElement.scrollWidth];
}})
"""


def test_hostile_and_long_text_is_text_on_every_stage(open_page):
    model = transformer(num_decoder_layers=1)
    page = open_page(page_of(model, HOSTILE, 260, target="</script> the mat " * 12))
    assert page.page.evaluate(f"() => ({STAGE})('#tokens').querySelectorAll('tbody tr').length") > 200
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
    assert page.page.evaluate(f"() => ({STAGE})('#tokens').querySelectorAll('tbody tr').length") == 3


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


WATCHED = """
() => {
  window.visited = [];
  const note = () => visited.push(`#${document.querySelector("#screen h2").id}`);
  new MutationObserver(note).observe(document.getElementById("screen"), { childList: true });
}
"""


def test_keys_walk_the_whole_page(open_page):
    page = open_page(page_of(transformer(), "I love you"))
    stages = addresses(page)
    page.page.evaluate(WATCHED)
    page.press(*["ArrowRight"] * len(stages), "ArrowLeft")  # the last stage is the last
    assert page.page.evaluate("visited") == [*stages[1:], stages[-2]]
    assert page.page.evaluate("location.hash") == stages[-2]
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
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.evaluate("() => { Math.random = () => 0.999; }")  # asks for the last number of the stage
    page.press("q")
    asked = page.page.locator("td.asked button")
    assert asked.text_content() == "?"
    box, panel = asked.bounding_box(), page.page.locator("#inspector").bounding_box()
    assert 0 <= box["y"] <= panel["y"] - box["height"]  # above the panel
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
    if scheme == "light":
        assert {width for _, _, width in page.page.evaluate(LARGEST)} == {390}
    for address in ("#walkthrough", "#qkv", "#probabilities", "#loss"):
        page.page.evaluate(f"link => {{ ({STAGE})(link); }}", address)
        if address == "#qkv":
            page.page.locator("#screen table.numbers button").nth(3).click()
        if scheme == "dark":
            assert page.violations("main", runOnly=["color-contrast"]) == [], address
        else:
            assert page.violations("main" if address in ("#probabilities", "#loss") else None) == [], address


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
    before = mg.get_rng_state().numpy()
    page = open_page(explain_documents().page, "#documents")
    assert (mg.get_rng_state().numpy() == before).all()  # its model was trained without the caller's draws
    sections = page.texts("#screen .example")
    assert len(sections) == 10
    assert [text.count("✗") for text in sections] == [16, 6, 0, 16, 10, 2, 0, 5, 0, 1]
    page.page.evaluate("() => { location.hash = '#scores'; }")
    page.page.locator("h2#scores").wait_for()
    assert page.texts("#screen .printed")[:4] == ["✓ 0.96", "✓ 4.15", "✓ 2.46", "✗ 3.21"]
    assert page.text("#toolbar .answer") == "→ Je t'aime"
