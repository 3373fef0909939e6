"""The model as the picture: where its parts are, what is lit when, and the engine's number in each cell."""

import numpy as np
import pytest

from minitransformer import GPT, T5, GPTConfig, T5Config, generate
from minitransformer.explain import record
from tests.explain.test_page import (
    bert,
    exposed,
    number,
    page_of,
    recurrent,
    scaled,
    sizes,
    transformer,
    vit,
    words,
)

SIZES = [(1440, 900), (1280, 720), (760, 760), (390, 844)]
PARTS = ["#walkthrough?detail=on"]  # each layer with all its parts
BOXES = """
() => {
  const boxes = selector => [...document.querySelectorAll(selector)].map(each => {
    const { left, top, right, bottom } = each.getBoundingClientRect();
    return [each.getAttribute("aria-label") ?? each.textContent, left, top, right, bottom];
  });
  const parts = ".stage .tag, .stage .token, .stage .panel, .stage .fold, .stage .says";
  return { parts: boxes(parts), stage: boxes(".stage"), wide: document.documentElement.scrollWidth };
}
"""
MOMENT = """
at => {
  const slider = document.getElementById("timeline");
  slider.value = at;
  slider.dispatchEvent(new Event("input"));
  return document.getElementById("cells").toDataURL();
}
"""
INSIDE = """
key => {
  const [name, t, j] = key;
  const place = placeOnStage(page, stageView, { name, index: [t, j], weight: false });
  const box = document.getElementById("cells").getBoundingClientRect();
  return [box.left + place.x + place.w / 2, box.top + place.y + place.h / 2];
}
"""


def open_inside(open_page, text, *fragment, **options):
    """The page, with what its picture draws in the reach of a test."""
    more = "Object.defineProperty(window, 'stageView', { get: () => stageView });"
    more += " window.placeOnStage = placeOnStage;"
    mark = "Object.assign(window, { page: e,"
    return open_page(exposed(text).replace(mark, more + mark), *fragment, bypass_csp=True, **options)


@pytest.mark.parametrize("parts", [[], PARTS], ids=["layers", "all parts"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_whole_model_fits_on_the_first_screen(width, height, parts, open_page):
    text = page_of(transformer(), "you love the cat")
    page = open_page(text, *parts, viewport={"width": width, "height": height})
    found = page.page.evaluate(BOXES)
    parts = found["parts"]
    assert found["wide"] == width
    assert found["stage"][0][4] <= height + 1
    labels = [label for label, *_ in parts]
    assert "Softmax" in labels
    assert [label for label in labels if label.startswith(("Add & norm after cross", "Layer 2, decoder"))]
    for name, left, top, right, bottom in parts:
        assert left >= 0, name
        assert top >= 0, name
        assert right <= width + 0.5, name
        assert bottom <= height + 1, name
    panel = page.page.locator(".panel")
    assert panel.evaluate("panel => panel.scrollHeight - panel.clientHeight") <= 1
    for i, (one, left, top, right, bottom) in enumerate(parts):
        for other, left_, top_, right_, bottom_ in parts[:i]:
            apart = left >= right_ - 1 or left_ >= right - 1 or top >= bottom_ - 1 or top_ >= bottom - 1
            assert apart, (one, other)


def test_frames_of_the_animation_differ(open_page):
    page = open_page(page_of(transformer()))
    moments = [page.page.evaluate(MOMENT, at) for at in (0, 250, 500, 750, 1000)]
    assert len(set(moments)) == 5
    assert page.page.evaluate(MOMENT, 250) == moments[1]  # back again


def test_showing_gradients_moves_the_timeline_to_its_end(open_page):
    page = open_page(page_of(transformer()))
    value = lambda: page.page.locator("#timeline").input_value()
    page.press("g")
    assert value() == "1000"
    page.press("g")
    assert value() == "500"


@pytest.mark.journey
def test_stage_cells_match_the_engine_forward_and_backward(open_page):
    model = transformer()
    tokenizer = words()
    page = open_inside(open_page, page_of(model, "you love the cat", target="the mat"), *PARTS)
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients = expected.backward(labels).activations
    path = "decoder.layers.1"
    places = [
        ("encoder.input", 4, 3),
        ("encoder.layers.0.feed_forward.hidden", 1, 13),
        (f"{path}.cross_attention.output", 2, 0),
        (f"{path}.residual3.norm.output", 0, 11),
    ]
    for moment, arrays in ((500, expected.arrays), (1000, gradients)):
        page.page.evaluate(MOMENT, moment)
        for name, t, j in places:
            page.page.mouse.click(*page.page.evaluate(INSIDE, [name, t, j]))
            assert number(page.text("#inspector .value")) == pytest.approx(
                arrays[name][t, j], rel=2e-4, abs=1e-7
            )
            page.press("Escape")
    assert page.page.locator("#inspector").is_hidden()


def test_sliders_at_the_output_change_the_probabilities(open_page):
    model = transformer()
    page = open_page(page_of(model, target="the mat"), "#walkthrough?open=probabilities")
    logits = record(
        model, [*words().encode("I love you"), words().end_id], [2, *words().encode("the mat")]
    ).arrays["logits"]
    page.page.locator('[data-key="slider:Temperature"]').fill("2")
    first = page.page.locator(".says").first.locator("title").first.text_content()
    p = np.exp(logits[0] / 2 - logits[0].max() / 2)
    assert number(first.split(": ")[1].removesuffix(" %")) == pytest.approx(
        100 * (p / p.sum()).max(), abs=0.6
    )
    page.page.locator('[data-key="slider:Top-k"]').fill("1")
    assert page.page.locator(".says").first.locator("title").first.text_content().endswith(": 100 %")


def test_blocks_open_to_their_equation_and_close(open_page):
    page = open_page(page_of(transformer()), *PARTS)
    for label, arrays in (
        ("Cross-attention, decoder layer 2", 5),
        ("Feed forward, encoder layer 1", 3),
        ("Softmax", 3),
    ):
        tag = page.page.get_by_role("button", name=label, exact=True)
        tag.focus()
        page.press("Enter")
        assert page.page.locator(".card canvas").count() == arrays
        assert page.page.locator(".card a").first.inner_text().startswith("All numbers: ")
        page.press("Escape")
        assert page.page.locator(".card").count() == 0
        assert page.page.evaluate("document.activeElement.getAttribute('aria-label')") == label
    page.page.get_by_role("button", name="Softmax", exact=True).press("Enter")
    page.page.locator(".card a").click()
    assert page.page.locator("h2#probabilities").count() == 1


def t5():
    """Of T5 1.1: scores that are not scaled but biased, a gate, and no linear layer with a bias."""
    small = {"d_model": 12, "d_kv": 6, "d_ff": 14, "num_layers": 1, "num_heads": 2}
    return scaled(T5(T5Config(**sizes(feed_forward_proj="gated-silu", **small))))


FORMULAS = [
    (transformer, "softmax(Q Kᵀ / √d) V", "relu(x W₁ + b₁) W₂ + b₂"),
    (t5, "softmax(Q Kᵀ + B) V", "(silu(x W₁) · (x W₃)) W₂"),
]


@pytest.mark.parametrize(("make", "attention", "forward"), FORMULAS)
def test_block_cards_show_the_formula_of_the_model(make, attention, forward, open_page):
    page = open_page(page_of(make()), *PARTS)
    for label, formula in (("Self-attention", f"head 1: {attention}"), ("Feed forward", forward)):
        page.page.get_by_role("button", name=f"{label}, encoder layer 1", exact=True).press("Enter")
        assert page.text(".card .formula") == formula
    page.page.evaluate("() => { location.hash = '#feed-forward'; }")
    page.page.locator("h2#feed-forward").wait_for()
    assert page.text("#screen .formula").startswith(f"FFN(x) = {forward}, ")


def test_the_slow_walk_names_the_highlighted_block(open_page):
    page = open_page(page_of(transformer()), *PARTS)
    for name in (
        "Tokens, encoder",
        "Embedding, encoder",
        "+ Positions, encoder",
        "Self-attention, encoder layer 1",
    ):
        page.page.locator('[data-key="walk-on"]').click()
        lit = page.page.locator(".tag.lit").evaluate_all(
            "tags => tags.map(tag => tag.getAttribute('aria-label'))"
        )
        assert lit == [name]
        assert page.text(".panel .thought").startswith(f"{name}. ")


def test_play_with_reduced_motion_jumps_to_the_end(open_page):
    page = open_page(page_of(transformer()))
    value = lambda: page.page.locator("#timeline").input_value()
    assert value() == "500"
    page.page.evaluate("document.activeElement.blur()")
    page.page.locator('[data-key="play-back"]').click()
    assert value() == "1000"
    page.page.evaluate("document.activeElement.blur()")
    page.press(" ")
    assert value() == "500"


def test_the_page_hides_its_answer_and_plays_once(open_page):
    page = open_page(exposed(page_of(transformer())), bypass_csp=True, reduced_motion="no-preference")
    said = "getComputedStyle(document.querySelector('.saying .said')).opacity"
    assert page.page.evaluate(f"[page.play.running, {said}]") == [True, "0"]
    page.page.locator('[data-key="speed"]').click()
    page.page.wait_for_timeout(600)
    page.page.locator('[data-key="play"]').click()
    at = int(page.page.locator("#timeline").input_value())
    assert 40 < at < 500  # a third of five seconds are 60
    page.page.evaluate("() => { page.play.at = 0.49; }")
    page.page.locator('[data-key="play"]').click()
    page.page.wait_for_function("() => !page.play.running")
    assert page.page.evaluate(f"[page.play.at, {said}]") == [0.5, "1"]
    page.page.fill("#sentence", "the cat")  # it does not play again
    assert page.page.evaluate("page.play.running") is False


def test_letter_keys_act_on_the_picture(open_page):
    page = open_page(exposed(page_of(transformer(), target="the mat")), bypass_csp=True)
    page.page.evaluate("document.activeElement.blur()")
    heads = [page.press("h") or page.page.evaluate("page.pictureHead") for _ in range(3)]
    assert heads == [0, 1, None]
    said = [page.press("n") or page.text(".panel .thought") for _ in range(2)]
    assert all(" it writes “" in text for text in said)
    assert said[0].startswith("After “<START>”")
    assert len({*said}) == 2


def test_a_language_model_continues_its_text(open_page):
    model = scaled(GPT(GPTConfig(**sizes(n_positions=16, n_embd=12, n_layer=1, n_head=2))))
    page = open_page(exposed(page_of(model, "I love you", 16)), bypass_csp=True)
    page.page.evaluate("page.set({ sampling: { temperature: 1, topK: 1, topP: 1 } })")  # the likeliest words
    ids = words().encode("I love you")
    page.page.locator('[data-key="continue"]').click()
    assert page.page.input_value("#sentence") == words().decode([*ids, *generate(model, [ids], 8)[0]])


def test_example_buttons_fill_in_the_text(open_page):
    page = open_page(page_of(transformer(), "I love you", examples=["I love you", "the cat"]))
    chips = page.page.locator(".examples button")
    assert chips.all_inner_texts() == ["the cat", "you love I"]
    chips.last.click()
    assert page.page.input_value("#sentence") == "you love I"
    assert chips.all_inner_texts() == ["I love you", "the cat"]


def test_a_written_word_is_animated_to_the_decoder_input(open_page):
    page = open_inside(open_page, page_of(transformer(), "you love the cat"))
    found = page.page.evaluate(
        """() => Array.from({ length: 500 }, (_, i) => {
          const found = stageView.schedule.travelling(i / 1000);
          const word = document.querySelector(`[data-word="decoder:${found?.t + 1}"]`);
          if (found) MOMENT(i);
          return found && [found.t, found.share, word.style.opacity];
        }).filter(Boolean)""".replace("MOMENT", f"({MOMENT})")
    )
    assert [*dict.fromkeys(t for t, *_ in found)] == [*range(found[-1][0] + 1)]
    assert all(0 <= share < 1 for _, share, _ in found)
    assert {opacity for *_, opacity in found} == {"0"}  # it is not there yet


@pytest.mark.parametrize("family", ["translator", "bert", "classifier", "recurrent", "vit"])
def test_any_vocabulary_word_can_be_the_target(family, open_page):
    pages = {
        "translator": lambda: page_of(transformer(), "I love you"),
        "bert": lambda: bert(),
        "classifier": lambda: bert("classification", labels=["thing", "place", "other"]),
        "recurrent": lambda: page_of(recurrent(), "you love the cat", 30),
        "vit": vit,
    }
    text = exposed(pages[family]())
    page = open_page(text, "#backward", bypass_csp=True)
    field = page.page.locator('[data-key="right"]')
    gradient = "([t, id]) => page.gradients().activations.logits.data[t * WIDTH + id]".replace(
        "WIDTH", "page.record.arrays.logits.shape[1]"
    )
    place = page.page.evaluate("() => targetPlace(page)")
    p = page.page.evaluate("t => [...rowOf(page.record.arrays.probabilities, t)]", place)
    least = int(np.argmin(p))
    word = page.page.evaluate("id => shownToken(page.wordOf(id))", least)
    count = page.page.evaluate("() => page.lossPositions().length")
    field.fill("")
    field.press_sequentially(word[:-1] or word)
    values = "list => [...list.options].map(option => option.value)"
    assert word in page.page.locator("#right-words").evaluate(values)
    field.fill(word)
    assert page.page.evaluate(gradient, [place, least]) == pytest.approx((p[least] - 1) / count, rel=1e-4)
    assert page.page.locator(".word.right").filter(has_text=word[:1]).count() >= 1  # also in the picture
    field.fill("no such word")
    field.press("Enter")
    assert "“no such word”: it knows" in page.text("#toolbar")
    page.page.locator('[data-key="own-answer"]').click()
    own = page.page.evaluate("t => page.found.labels[t]", place)
    assert page.page.evaluate(gradient, [place, own]) == pytest.approx((p[own] - 1) / count, rel=1e-4)
    row = page.page.locator(f'[data-says="{place}"] [data-word-id]')
    second = int(row.nth(1).get_attribute("data-word-id"))
    row.nth(1).locator("text").first.click()
    assert page.page.evaluate(gradient, [place, second]) == pytest.approx((p[second] - 1) / count, rel=1e-4)
    assert page.page.input_value('[data-key="right"]') == page.page.evaluate(
        "id => shownToken(page.wordOf(id))", second
    )
    link = page.page.evaluate("() => addressOf(page)")
    other = open_page(text, link, bypass_csp=True)
    assert other.page.evaluate(gradient, [place, second]) == pytest.approx((p[second] - 1) / count, rel=1e-4)


@pytest.mark.slow
def test_the_position_of_the_target_word_can_be_chosen(open_page):
    page = open_page(exposed(page_of(transformer(), target="love the mat")), "#backward", bypass_csp=True)
    page.page.locator('[data-key="choice:Right after"]').select_option("1")
    assert page.page.input_value('[data-key="right"]') == "␣the"
    page.page.fill('[data-key="right"]', "cat")  # typed without its space
    labels = page.page.evaluate("() => page.labels().map(id => page.tokenOf(id))")
    assert labels == [" love", " cat", " mat", "<END>"]
    assert page.violations("#screen") == []


COLOURS = """
() => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["positive", "negative", "h0", "h1"].map(name => {
    return [name, style.getPropertyValue(`--${name}`).match(/[0-9a-f]{2}/g).map(x => parseInt(x, 16))];
  }));
}
"""
OF_COLOUR = """
colour => {
  const canvas = document.getElementById("cells");
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [far, near] = [0, 1, 2].map(c => Math.abs(data[i + c] - colour[c])).toSorted((a, b) => b - a);
    if (data[i + 3] > 40 && far < 12 && near < 12) found += 1;
  }
  return found;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_heads_have_colours_and_a_click_isolates_one(scheme, open_page):
    page = open_page(exposed(page_of(transformer())), bypass_csp=True, color_scheme=scheme)
    colours = page.page.evaluate(COLOURS)
    for head in ("h0", "h1"):
        for sign in ("positive", "negative"):
            assert sum(abs(a - b) for a, b in zip(colours[head], colours[sign], strict=True)) > 80
    inks = lambda: [page.page.evaluate(OF_COLOUR, colours[head]) > 0 for head in ("h0", "h1")]
    assert inks() == [True, True]
    page.page.locator('[data-key="lines:1"]').click()
    assert inks() == [False, True]
    assert page.violations() == []
    page.page.locator('[data-key="lines:1"]').click()
    assert inks() == [True, True]
    page.page.evaluate("() => go('softmax')")
    colour = "element => getComputedStyle(element).{}"
    for head in (0, 1):
        page.page.locator(f'[data-key="head:{head}"]').click()
        shown = f"rgb({', '.join(map(str, colours[f'h{head}']))})"
        assert page.page.locator(".arc").first.evaluate(colour.format("stroke")) == shown
        title = page.page.locator(".heat-map figcaption").last.evaluate(colour.format("color"))
        assert title == shown
        assert page.violations() == []
