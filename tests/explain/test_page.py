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
    RecurrentConfig,
    RecurrentLM,
    T5Config,
    Transformer,
    TransformerConfig,
    ViT,
    ViTConfig,
    attention_distance,
    attention_entropy,
    generate,
    logit_lens,
)  # fmt: skip
from minitransformer.explain import record
from minitransformer.explain.page import to_html
from minitransformer.layers.quantized import dequantize, quantize, stored_rows
from minitransformer.models.bart import BARTConfig
from minitransformer.text.tokenizer import Tokenizer
from minitransformer.text.tokenizer_presets import BERT_TOKENS

TEXTS = ["I love you", "the cat sat on the mat", "you love the cat", "a </script> mat"]
STAGE = """
link => {
  if (decodeURIComponent(location.hash) !== link) {
    history.replaceState(null, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
  const screen = document.getElementById("screen");
  screen.querySelector('[data-key="numbers"][aria-expanded="false"]')?.click();
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
SAID = f"""
() => [...({STAGE})("#walkthrough").querySelectorAll(".says")].map(place =>
  [...place.querySelectorAll("title")].map(title => title.textContent.split(": ")))
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


def bert(head="masked_lm", labels=(), **settings):
    tokenizer = words(added=BERT_TOKENS)
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 14}
    small |= {"vocab_size": tokenizer.vocab_size, "head": head, "num_labels": len(labels) or 2}
    model = scaled(BERT(BERTConfig(**small, **settings)))
    if head == "similarity":
        vectors = np.random.default_rng(1).normal(size=(len(labels), 12)).astype(np.float32)
        model.head.register_buffer("candidates", mg.tensor(vectors))
    cls = tokenizer.special_id("[CLS]")
    sep = tokenizer.special_id("[SEP]")
    inputs = {"before": [cls], "after": [sep], "marks": ["[MASK]"], "strip": True}
    return page_of(model, "I [MASK] you", tokenizer=tokenizer, inputs=inputs, labels=labels)


def vit_model():
    """A ViT of four patches, and an image."""
    small = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 14}
    config = ViTConfig(image_size=4, patch_size=2, num_channels=1, num_labels=3, **small)
    mg.manual_seed(0)
    return scaled(ViT(config)), np.random.default_rng(0).normal(size=(1, 4, 4))


def vit():
    model, image = vit_model()
    return to_html(model, None, "a digit", title="a digit", labels=["0", "1", "2"], image=image)


def recurrent(kind="lstm", **settings):
    mg.manual_seed(0)
    small = {"embedding_dim": 12, "hidden_size": 12, "num_layers": 2, "rnn_type": kind}
    return scaled(RecurrentLM(RecurrentConfig(**sizes(**small | settings))))


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
    for kind in ("lstm", "gru", "rnn"):
        yield kind, page_of(recurrent(kind))


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


def test_8_bit_weights_are_shown_with_their_row_scale(open_page):
    settings = sizes(n_positions=32, n_embd=10, n_layer=1, n_head=2, n_inner=13)  # 130 bytes: not whole words
    model = quantize(scaled(GPT(GPTConfig(**settings))))
    page = open_page(page_of(dequantize(model), matrices=stored_rows(model)))
    assert "stored as 8-bit integers, with a scale for each row" in page.page.locator("body").inner_text()
    weights = {name: tensor.numpy() for name, tensor in dequantize(model).state_dict().items()}
    written = generate(model, [words().encode("I love you")], 8)[0]
    expected = record(dequantize(model), [*words().encode("I love you"), *written[:-1]])
    found = shown(page)
    assert check_against(found, weights, "wv") > 40
    assert check_against(found, expected.arrays, "av") > 500


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


@pytest.mark.journey
def test_all_charts_match_the_engine(open_page):
    model = transformer(output_bias=True)
    tokenizer = words()
    page = open_page(page_of(model, "you love the cat", target="the mat"))
    tables = lambda stage: page.page.evaluate(TABLES, stage)
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients = expected.backward(labels)
    p = expected.arrays["probabilities"]
    chosen = p[range(3), labels]
    name = lambda i: tokenizer.id_to_token[i].replace(" ", "␣")

    # probabilities of the right words, of the likeliest next words, and losses
    said = page.page.evaluate(SAID)
    best = np.argsort(-p, axis=-1, kind="stable")[:, :3]
    assert [[word for word, _ in row] for row in said] == [[name(i) for i in row] for row in best]
    all_agree([[share for _, share in row] for row in said], np.take_along_axis(p, best, -1))
    likeliest = np.argsort(-p[0], kind="stable")[:12]
    (*bars, others), numbers = tables("#probabilities")
    assert others[0] == f"{p.shape[1] - 12} others"
    assert agrees(others[2], 1 - p[0, likeliest].sum())
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
    most, aligned = tables("#alignment:decoder.layers.1.cross_attention")
    weights = expected.arrays["decoder.layers.1.cross_attention.weights"]
    mean = weights.mean(0)
    all_agree([row[2:] for row in aligned], mean)
    assert [row[2].rsplit(" ", 2)[0] for row in most] == [name(source[u]) for u in mean.argmax(-1)]
    all_agree([[row[2].split(" ", 1)[1] for row in most]], [mean.max(-1)])
    page.page.locator('[data-key="choice:Head"]').select_option("1")
    all_agree([row[2:] for row in tables("#alignment")[1]], weights[1])

    # what a head would attend to without scaling and with it; how far it looks, and at how many words
    path = "encoder.layers.0.self_attention"
    scores = expected.arrays[f"{path}.scores"][0, 0]
    unscaled, scaled_, *_ = tables(f"#scale:{path}")
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
    _, alike, *_ = tables("#embeddings")
    assert [row[0] for row in alike] == [name(i) for i in nearest]
    all_agree([[row[2] for row in alike]], [cosines[nearest]])

    # which word's loss pulls where, and the length of each gradient
    alone = [expected.backward(labels, positions=[t]).activations for t in range(3)]
    for stack, table in zip(("encoder", "decoder"), tables("#pull"), strict=True):
        lengths = [np.linalg.norm(each[f"{stack}.input"], axis=-1) for each in alone]
        all_agree([row[1:] for row in table], lengths)

    # what each layer would say, were it the last
    lens = logit_lens(model, [source], [[tokenizer.start_id, *labels[:-1]]])
    (layers,) = tables("#layers")
    for row, probabilities in zip(layers, lens.values(), strict=True):
        q = probabilities.numpy()[0, 0]
        best = np.argsort(-q, kind="stable")[:3]
        texts = re.findall(r"(\S+) ((?:< )?[\d.]+ %)", row[3])
        assert [word for word, _ in texts] == [name(i) for i in best]
        all_agree([[text for _, text in texts]], [q[best]])


@pytest.mark.parametrize("family", ["gpt", "bert", "gru"])
def test_the_last_layer_row_matches_the_model_output(family, open_page):
    page = open_page(dict(families())[family])
    last = page.page.evaluate(TABLES, "#layers")[0][-1][3]
    said = page.page.evaluate(TABLES, "#probabilities")[0][:3]
    assert last == "".join(f"{word} {share}" for word, _, share in said)


def test_bert_pages_highlight_only_masked_positions(open_page):
    page = open_page(bert(), "#tokens")
    assert page.page.locator("#screen .note").count() == 0  # no token is unknown
    for text, quiet in (("I [MASK] you", 4), ("I love you", 0)):
        page.page.fill("#sentence", text)
        page.page.evaluate(f"() => {{ ({STAGE})('#walkthrough'); }}")
        assert page.page.locator(".says").count() == 5
        assert page.page.locator(".says.quiet").count() == quiet  # beside the gap
        counts = page.page.evaluate(f"() => ({STAGE})('#loss').querySelectorAll('td :checked').length")
        assert counts == (1 if "[" in text else 5)
    page.page.fill("#sentence", "I zebra you")
    assert "1 of the tokens" in page.page.evaluate(f"() => ({STAGE})('#tokens').textContent")


def test_classifier_pages_show_classes_and_their_gradients(open_page):
    page = open_page(bert("classification", labels=["thing", "place"]))
    assert "which class it belongs to" in page.text(".thought")
    page.page.evaluate(f"() => {{ ({STAGE})('#logits'); }}")
    page.press("g")
    page.page.locator('[data-key^="ag:logits"]').first.click()
    best = page.text("#toolbar .answer").removeprefix("→ ")
    assert f"the right class “{best}”" in page.text("#inspector .equation")
    page.press("n")
    assert page.text("#announcer") == best


PLACE_OF_LARGEST = """
function placeOfLargest({ shape, data }) {
  let at = data.reduce((best, x, i) => (Math.abs(x) > Math.abs(data[best]) ? i : best), 0);
  return shape.toReversed().map(n => [at % n, (at = Math.floor(at / n))][0]).toReversed();
}
"""


def exposed(text):
    """The page's text, with its parts in the reach of a test."""
    parts = "{ value: derive, gradient: deriveGradient, weight: deriveWeightGradient }"
    names = f"page: e, derivations: {parts}, offsetOf: offset, placeOfLargest, "
    names += "weightsOf, go: e.go, addressOf, shownToken, paintLine, rowOf, targetPlace, blockOf, "
    names += "hasLines, leastWeights"
    tail = f"Object.assign(window, {{ {names} }});"
    tail = PLACE_OF_LARGEST + tail
    return text.replace(
        'document.body.classList.add("ready");', f'{tail} document.body.classList.add("ready");'
    )


WALK_CELLS = """
() => {
  const found = [];
  for (const screen of page.screens) {
    page.set({ screen: screen.address, cell: null, numbers: true });
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


def check_walked_cells(page):
    """A cell of each kind, clicked: its panel shows a sum, which is the cell's number."""
    page.press("g")
    found = page.page.evaluate(WALK_CELLS)
    assert len(found) > 50
    for key, value, total, text in found:
        assert "[object" not in text
        if total is None:  # nothing reaches it
            assert key[1] == "v" or number(value) == 0 or "no gradient" in text, (key, text)
        else:
            assert number(total) == pytest.approx(number(value), rel=2e-3, abs=2e-5), (key, text)
    return {key for key, *_ in found}


def test_a_selected_number_equals_its_displayed_sum(open_page):
    check_walked_cells(open_page(exposed(page_of(transformer(), target="the mat")), bypass_csp=True))


# ---------------------------------------------------------------- the file


def test_an_unreadable_text_keeps_the_previous_numbers(open_page):
    page = open_page(page_of(transformer(), "I love you", 6))
    page.page.evaluate(f"() => {{ ({STAGE})('#tokens'); }}")
    for text, problem in (("", "The text has no words."), ("the " * 9, "takes at most")):
        page.page.fill("#sentence", text)
        assert problem in page.text("#toolbar .problem")
        assert page.text("#screen blockquote") == "I love you"
    page.page.fill("#sentence", "the cat")
    assert page.page.locator(".problem").count() == 0
    assert page.text("#screen blockquote") == "the cat"


def test_a_text_longer_than_the_positions_shows_a_problem(open_page):
    model = transformer(positions="learned", max_positions=6)
    page = open_page(page_of(model, target="the cat sat on the mat you love"))
    assert "longer than the 6 positions" in page.text("#screen .problem")
    page.complaints.clear()


def test_a_picture_is_shown_without_javascript(open_page):
    picture = '<svg role="img"><title>I becomes Je</title></svg>'
    page = open_page(page_of(transformer(), picture=picture), java_script_enabled=False)
    assert page.page.locator("#picture svg title").text_content() == "I becomes Je"
    assert page.page.locator("noscript").is_visible()


@pytest.mark.journey
def test_the_content_security_policy_blocks_other_scripts(open_page):
    text = page_of(transformer())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    data = text[text.index('id="data">') + 10 :]
    assert json.loads(data[: data.index("</script>")])["model_type"] == "transformer"


# ---------------------------------------------------------------- reading it


SLIDERS = {
    "#embeddings": "window:encoder.embedded",
    "#positions": "slider:Columns",
    "#probabilities": "slider:Temperature",
    "#beams": "slider:Beams",
}


def test_a_slider_follows_the_mouse(open_page):
    page = open_page(page_of(transformer()))
    for stage, key in SLIDERS.items():
        page.page.evaluate(f"link => {{ ({STAGE})(link); }}", stage)
        slider = page.page.locator(f'[data-key="{key}"]')
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        values = []
        texts = []
        y = box["y"] + box["height"] / 2
        page.page.mouse.move(box["x"] + 9, y)
        page.page.mouse.down()
        for share in (0.3, 0.6, 1):
            page.page.mouse.move(box["x"] + 9 + share * (box["width"] - 18), y)
            values.append(float(slider.input_value()))
            texts.append(slider.locator("xpath=following-sibling::*").text_content())
        page.page.mouse.up()
        assert values == sorted(set(values)), (stage, values)
        assert values[-1] == float(slider.get_attribute("max"))
        assert len(set(texts)) == 3


def test_text_can_be_typed_with_an_input_method(open_page):
    """As Korean, Chinese and Japanese are typed: the letters of a word change until it is chosen."""
    page = open_page(page_of(transformer()))
    page.page.locator("#sentence").focus()
    page.press("End")
    keyboard = page.page.context.new_cdp_session(page.page)
    for composed in ("ㄱ", "가", "각"):
        end = {"selectionStart": 1, "selectionEnd": 1}
        keyboard.send("Input.imeSetComposition", {"text": composed, **end})
        assert page.page.input_value("#sentence") == f"I love you{composed}"
    keyboard.send("Input.insertText", {"text": "각"})
    assert page.page.input_value("#sentence") == "I love you각"
    assert "<UNK>" in page.page.evaluate(f"() => ({STAGE})('#tokens').textContent")  # the model has read it
    keyboard.detach()


def test_focus_scrolling_and_input_survive_updates(open_page):
    page = open_page(page_of(transformer(), "you love the cat the mat", 9), "#softmax")
    page.page.set_viewport_size({"width": 330, "height": 844})
    page.page.locator('[data-key="numbers"]').click()
    wide = page.page.locator("#screen .below .scroll").first
    page.page.locator("#screen .below td button").nth(6).focus()  # the last of its row
    left = wide.evaluate("region => region.scrollLeft")
    page.press("Enter")
    assert wide.evaluate("region => region.scrollLeft") == left > 0
    page.press("g")  # the same cell, with a gradient beside its table
    assert page.page.evaluate("document.activeElement.dataset.key").endswith(":0,0,6")
    page.press("q", "Escape", "q")  # the second question asks for a number
    page.page.fill("#answer", "0.5000")
    page.press("Enter")
    assert page.page.input_value("#answer") == "0.5000"
    page.press("Escape", "Escape", "q", "Escape", "q")
    assert page.page.input_value("#answer") == ""


WATCHED = """
() => {
  window.visited = [];
  const note = () => visited.push(`#${document.querySelector("#screen h2").id}`);
  new MutationObserver(note).observe(document.getElementById("screen"), { childList: true });
}
"""


def test_arrow_keys_visit_every_stage(open_page):
    page = open_page(page_of(transformer(), "I love you"))
    stages = addresses(page)
    page.page.evaluate(WATCHED)
    page.press(*["ArrowRight"] * len(stages), "ArrowLeft")  # the last stage is the last
    assert page.page.evaluate("visited") == [*stages[1:], stages[-2]]
    assert page.page.evaluate("location.hash.split(/[:?]/)[0]") == stages[-2]
    page.page.evaluate("() => { location.hash = '#softmax'; }")
    page.page.locator("h2#softmax").wait_for()
    page.page.locator('[data-key="numbers"]').click()
    page.page.locator("#screen table.numbers button").first.focus()
    page.press("ArrowRight", "ArrowDown", "Enter")  # a walk from cell to cell does not turn the page
    assert page.page.locator('#screen [aria-pressed="true"][data-key$=":0,1,1"]').count() == 1
    assert "love" in page.text("#inspector h2")
    page.press("Escape")
    assert page.page.locator("#inspector").is_hidden()


def test_arrow_keys_scroll_and_letter_keys_can_be_disabled(open_page):
    page = open_page(page_of(transformer(), "you love the cat the mat", 9), "#pull")
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.locator("#screen .scroll").first.focus()
    page.press("ArrowRight", "ArrowRight")
    for _ in range(200):  # wait_for_function polls by eval, which the page's policy forbids
        if page.page.evaluate("document.querySelector('#screen .scroll').scrollLeft") > 0:
            break
        page.page.wait_for_timeout(20)
    assert page.page.evaluate("document.querySelector('#screen .scroll').scrollLeft") > 0
    assert page.page.locator("h2#pull").count() == 1
    leave = "() => document.activeElement.blur()"
    for on in (False, True):
        page.page.locator('[data-key="check:letters"]').evaluate("box => box.click()")
        page.page.evaluate(leave)
        page.press("g")
        pressed = page.page.locator('[data-key="gradients"]').get_attribute("aria-pressed")
        assert pressed == str(on).lower()
    page.press("ArrowRight")
    assert page.page.locator("h2#backward").count() == 1


PLACES = {
    "#add-norm:decoder.layers.1.residual2": "Add & norm after cross-attention, decoder layer 2",
    "#feed-forward:encoder.layers.0.feed_forward": "Feed forward, encoder layer 1",
    "#alignment:decoder.layers.0.cross_attention": "Cross-attention, decoder layer 1",
    "#softmax:decoder.layers.1.self_attention": "Masked attention, decoder layer 2",
}
LABELS = "boxes => boxes.map(box => box.getAttribute('aria-label'))"


def test_addresses_select_a_layer_and_mark_it_on_the_map(open_page):
    page = open_page(page_of(transformer()), "#cross-attention:decoder.layers.1.cross_attention")
    here = lambda: page.page.locator("#map .here").evaluate_all(LABELS)
    chosen = page.page.locator('[data-key="choice:Attention"]')
    assert chosen.input_value() == "decoder.layers.1.cross_attention"
    assert chosen.locator("option").all_inner_texts() == [
        "decoder layer 1, cross-attention", "decoder layer 2, cross-attention"
    ]  # fmt: skip
    assert here() == ["Cross-attention, decoder layer 2"]
    for link, label in PLACES.items():
        page.page.evaluate(f"link => {{ ({STAGE})(link); }}", link)
        assert here() == [label]


def test_the_map_places_norms_like_the_model(open_page):
    page = open_page(dict(families())["gpt"], "#tokens")
    labels = page.page.locator("#map .box").evaluate_all(LABELS)
    layer = [
        f"{part}, layer 1"
        for name, kind in (("self-attention", "Masked attention"), ("feed forward", "Feed forward"))
        for part in (f"Norm before {name}", kind, f"Add after {name}")
    ]
    assert labels[3:-3] == layer  # equal layers are drawn once
    assert [labels[0], *labels[-3:]] == ["Tokens", "Norm after the last layer", "Linear", "Softmax"]
    assert page.page.locator("#map .times").all_text_contents() == ["× 2, here layer 1"]
    assert page.page.locator("#map .wire").count() == len(labels) + 2  # around each sub-layer
    page = open_page(page_of(transformer()), "#tokens")
    labels = page.page.locator("#map .box").evaluate_all(LABELS)
    assert "Add & norm after cross-attention, decoder layer 1" in labels
    assert page.page.locator("#map .wire").count() == len(labels) + 5 + 1  # one from the encoder
    page.page.locator('#map [data-key="choice:Decoder"]').select_option("1")
    assert page.page.locator("#map .times").all_text_contents() == ["× 2, here layer 2"]
    labels = page.page.locator("#map .box").evaluate_all(LABELS)
    assert "Add & norm after cross-attention, decoder layer 2" in labels


def test_stale_selections_are_cleared_when_the_place_changes(open_page):
    ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    uneven = {"encoder_attention_heads": 4, "decoder_attention_heads": 2}
    uneven |= {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "ffn_dim")}
    bart = scaled(BART(BARTConfig(**sizes(d_model=12, max_position_embeddings=32, **ends, **uneven))))
    page = open_page(page_of(bart, "you love the cat"), "#weighted-sum")
    page.page.locator('[data-key="numbers"]').click()
    page.press("h", "h", "h")
    page.page.locator("#screen figure").last.locator("tbody tr").last.locator("button").first.click()
    page.page.locator("#inspector .link").nth(1).click()  # the first word's value
    assert page.page.locator('[data-key="back"]').count() == 1
    page.page.fill("#sentence", "I")  # the last word's output, which was looked at before, is gone
    assert page.page.locator("#inspector").is_visible()
    assert page.page.locator('[data-key="back"]').count() == 0
    page.page.evaluate(f"() => {{ ({STAGE})('#softmax:decoder.layers.0.cross_attention'); }}")
    assert page.texts("#screen [aria-label=Head] [aria-pressed=true]") == ["Head 2"]
    page.page.evaluate(f"() => {{ ({STAGE})('#probabilities'); }}")
    page.page.locator('[data-key="draw"]').click()
    assert "falls on" in page.text(".drawn")
    page.page.fill("#sentence", "you")
    assert page.page.locator(".drawn").count() == 0


def test_position_waves_match_the_encoding_width(open_page):
    page = open_page(page_of(transformer(concatenate_positions=True, d_model=16)), "#positions")
    wide = page.page.evaluate(f"() => ({STAGE})('#positions').querySelectorAll('.matrix')[1].textContent")
    assert "× 8" in wide
    assert page.text("#screen").count("× 8 columns") == 1


def test_the_quiz_hides_a_number_until_it_is_answered(open_page):
    page = open_page(page_of(transformer()), "#weighted-sum")
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.evaluate("() => { Math.random = () => 0.999; }")  # asks for the last number of the stage
    page.press("q")
    asked = page.page.locator("td.asked button")
    assert asked.text_content() == "?"
    box = asked.bounding_box()
    panel = page.page.locator("#inspector").bounding_box()
    assert 0 <= box["y"] <= panel["y"] - box["height"]  # above the panel
    assert page.text("#inspector .value") == "?"
    page.press("Enter")  # nothing is typed
    assert page.text(".reply") == "Not empty. Type a number, such as 0.25."
    page.page.fill("#answer", "1000")
    page.press("Enter")
    assert page.text(".reply") == "Not 1000. It is smaller."
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
    page.press("q")
    page.page.locator('[data-key="close"]').click()  # closed, it asks no more
    assert page.page.locator("td.asked").count() == 0


def test_the_quiz_accepts_answers_within_one_percent(open_page):
    page = open_page(page_of(transformer()), "#backward")
    answer = page.text("#toolbar .answer")
    page.press("q")  # where there is no table, a logit is asked for
    assert page.text("#inspector h2").startswith("logit")
    page.press("ArrowLeft")
    assert page.text("#toolbar .answer") == answer
    page.page.evaluate(f"() => {{ ({STAGE})('#weighted-sum'); }}")
    page.press("g")  # gradients are small
    page.page.evaluate("() => { Math.random = () => 0.999; }")
    page.press("q")
    page.page.locator('[data-key="show"]').click()
    right = number(page.text("#inspector .value"))
    for share, is_right in ((1.02, False), (0.98, False), (1.005, True)):
        page.press("Escape", "q")
        page.page.fill("#answer", f"{share * right:.8f}")
        page.press("Enter")
        assert (page.page.locator("td.asked").count() == 0) == is_right
    assert abs(right) < 0.25  # where an error of 2 percent is a small number


# ---------------------------------------------------------------- the command


def test_explain_writes_a_page_and_keeps_existing_files(cli, here):
    code, out, _ = cli("explain", "mine", "I love you", "-o", "page.html")
    assert (code, out.startswith("page.html: ")) == (0, True)
    text = (here / "page.html").read_text()
    assert "<title>mine: I love you</title>" in text
    assert '<h1 title="The run that trained this model">mine</h1>' in text
    assert text.count("<svg") == 1
    code, _, err = cli("explain", "mine", "I love you", "-o", "page.html")
    assert (code, "already exists" in err) == (2, True)
    code, _, err = cli("explain", "-o", "other.html")
    assert (code, "expected a run folder or a preset, got nothing" in err) == (2, True)
    code, _, err = cli("explain", "--preset", "documents", "mine", "-o", "other.html")
    assert (code, "Pass a run or --preset, not both." in err) == (2, True)
    code, _, err = cli("explain", "--preset", "nope")
    assert (code, "--preset: invalid choice: 'nope' (choose from " in err) == (2, True)
    code, _, err = cli("explain", "play", "To be", "or not", "-o", "other.html")
    assert (code, "of type gpt2, which takes no target, got 'or not'" in err) == (2, True)
    code, _, err = cli("explain", "mine", "-o", "page.svg")
    assert (code, "is not the name of an HTML page" in err) == (2, True)
