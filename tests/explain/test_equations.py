"""Equations in one row, and what lights up together."""

import pytest

from minitransformer import GPT, GPTConfig
from tests.explain.test_page import exposed, families, page_of, scaled, sizes, transformer

CANVAS = 'canvas.cells[data-key^="heat:encoder.layers.0.self_attention.{}:"]'
MARKS = """
() => Object.fromEntries([...document.querySelectorAll("canvas.cells")].map(canvas => {
  const [box, mark] = [canvas, canvas.nextSibling].map(each => each.getBoundingClientRect());
  const { rows, columns } = { rows: canvas.height, columns: canvas.width };
  const from = [(mark.top - box.top) / box.height * rows, (mark.left - box.left) / box.width * columns];
  const name = canvas.dataset.key.split(":")[1].split(".").at(-1);
  const cells = [mark.height / box.height * rows, mark.width / box.width * columns];
  return [name, mark.width ? [...from, ...cells].map(Math.round) : null];
}))
"""


def point_at(page, name, row, column):
    canvas = page.page.locator(CANVAS.format(name))
    rows, columns = canvas.evaluate("canvas => [canvas.height, canvas.width]")
    box = canvas.bounding_box()
    x = box["x"] + box["width"] * (column + 0.5) / columns
    y = box["y"] + box["height"] * (row + 0.5) / rows
    page.page.mouse.move(x, y)
    return x, y


@pytest.fixture
def scores(open_page):
    return open_page(page_of(transformer(), "you love the cat"), "#scores")


def test_a_product_is_drawn_in_a_row_with_k_transposed(scores):
    boxes = [scores.page.locator(CANVAS.format(name)).bounding_box() for name in ("q", "k", "scores")]
    q, k, result = boxes
    assert q["x"] + q["width"] < k["x"]
    assert k["x"] + k["width"] < result["x"]
    assert abs(q["y"] - result["y"]) < 2
    assert abs(q["height"] - result["height"]) < 2
    assert abs(k["width"] - result["width"]) < 2  # columns meet columns
    shapes = [scores.page.locator(CANVAS.format(name)).get_attribute("width") for name in ("q", "k")]
    assert shapes == ["6", "5"]
    assert "⊤" in scores.text(".heat-map figcaption")
    assert scores.page.locator("table.numbers").count() == 0
    scores.page.locator('[data-key="numbers"]').click()
    assert scores.page.locator("table.numbers").count() == 3


def test_pointing_at_a_score_highlights_its_factors(scores):
    x, y = point_at(scores, "scores", 1, 3)
    expected = {"q": [1, 0, 1, 6], "k": [0, 3, 6, 1], "scores": [1, 3, 1, 1]}
    assert scores.page.evaluate(MARKS) == expected
    lit = scores.page.locator(".row-labels .lit, .column-labels .lit").all_inner_texts()
    assert set(lit) == {"␣love", "␣cat"}
    block = "boxes => boxes.map(box => box.getAttribute('href'))"
    assert scores.page.locator("#map .lit").evaluate_all(block) == [
        "#attention:encoder.layers.0.self_attention"
    ]
    assert "love · ␣cat" in scores.text(".readout")
    scores.page.mouse.click(x, y)  # selected, it stays lit
    scores.page.mouse.move(2, 2)
    assert scores.page.evaluate(MARKS) == expected
    assert "love" in scores.text("#inspector h2")
    shown = float(scores.text("#inspector .value").replace("−", "-"))
    read = scores.page.locator(CANVAS.format("scores")).evaluate("c => c.operand.valueAt(1, 3)")
    assert shown == pytest.approx(read, rel=1e-5)


BLOCKS = {
    "gpt": {"layers.input": "positions", "layers.output": "final-norm:layers"},
    "t5": {"encoder.input": "embeddings", "decoder.output": "final-norm:decoder", "head.scaled": "head"},
    "bert": {"token_types.weight": "segments", "encoder.input": "input-norm:encoder", "head.hidden": "head"},
    "bart": {"decoder.positions": "shifted", "decoder.output": "add-norm:decoder.layers.0.residual3"},
    "vit": {"encoder.class": "patches", "encoder.output": "final-norm:encoder"},
    "lstm": {"layers.0.cell": "memory:layers.0", "layers.0.kept": "gates:layers.0"},
}  # fmt: skip
BLOCKS_OF = """
names => {
  const boxes = [...document.querySelectorAll("#map .box")].map(box => box.getAttribute("href"));
  const isDrawn = block => boxes.includes(`#${block}`) || /layers\\.1/.test(block);
  const lost = [...page.plan.keys()].filter(name => !isDrawn(blockOf(page, name)));
  return [Object.fromEntries(names.map(name => [name, blockOf(page, name)])), lost];
}
"""


@pytest.mark.parametrize("family", list(BLOCKS))
def test_pointing_at_an_array_highlights_its_block(family, open_page):
    page = open_page(exposed(dict(families())[family]), bypass_csp=True)
    blocks, lost = page.page.evaluate(BLOCKS_OF, list(BLOCKS[family]))
    assert blocks == BLOCKS[family]
    assert lost == []


def test_pointing_at_a_word_highlights_it_and_its_arcs(scores):
    scores.page.locator(".row-labels span").nth(2).hover()
    lit = scores.page.locator(".lit[data-token]")
    assert {text for text in lit.all_text_contents() if text} == {"␣the"}
    assert lit.count() >= 4  # beside Q, above Kᵀ and the scores, twice at the arcs
    of_word = ".arc[data-query='source:2']"
    assert scores.page.locator(f"{of_word}:not(.dim)").count() == scores.page.locator(of_word).count() > 0
    assert scores.page.locator(".arc:not(.dim)").count() == scores.page.locator(of_word).count()


def test_cells_can_be_selected_by_keyboard(scores):
    scores.page.locator(CANVAS.format("scores")).focus()
    scores.press("ArrowRight", "ArrowDown", "ArrowRight", "Enter")
    assert scores.page.evaluate(MARKS)["scores"] == [1, 2, 1, 1]
    assert scores.page.locator("h2#scores").count() == 1
    assert scores.page.locator("#inspector").is_visible()


def test_long_texts_show_attention_as_a_heat_map(open_page):
    config = GPTConfig(**sizes(n_positions=32, n_embd=12, n_layer=1, n_head=2))
    page = open_page(page_of(scaled(GPT(config)), "the cat sat on the mat the cat", 12), "#softmax")
    arcs = page.page.locator("#screen .arcs")
    assert arcs.count() == 0
    page.page.locator('[data-key="picture:Arcs"]').click()
    assert arcs.count() == 1
    page.page.fill("#sentence", "the")
    page.page.locator('[data-key="picture:Heat map"]').click()
    assert arcs.count() == 0


def test_short_texts_show_attention_as_arcs(scores):
    assert scores.page.locator("#screen .arcs").count() == 1


def test_scores_before_and_after_masking_share_a_row(open_page):
    page = open_page(page_of(transformer()), "#mask")
    rows = page.page.locator("canvas.cells").evaluate_all(
        "all => all.map(canvas => Math.round(canvas.getBoundingClientRect().top))"
    )
    assert len(rows) == 3
    assert len(set(rows)) == 1
    hidden = page.page.locator("canvas.cells").evaluate_all(
        "all => all.map(canvas => canvas.operand.valueAt(0, 1) === -Infinity)"
    )
    assert hidden == [False, True, True]


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900)])
@pytest.mark.slow
def test_equation_results_and_panel_need_no_scrolling(width, height, open_page):
    page = open_page(page_of(transformer(d_model=64, d_ff=128), "you love the cat"))
    page.page.set_viewport_size({"width": width, "height": height})
    for stage in ("qkv", "scores", "softmax", "weighted-sum", "heads", "add-norm", "feed-forward", "logits"):
        page.page.evaluate("link => { location.hash = link; }", f"#{stage}")
        page.page.locator(f"h2#{stage}").wait_for()
        box = page.page.locator("canvas.cells").last.bounding_box()
        result = page.page.locator(".with-side > div").first.locator("canvas.cells").last
        box = result.bounding_box()
        assert box["y"] + box["height"] <= height, stage
        result.click()
        panel = page.page.locator("#inspector").bounding_box()
        assert box == result.bounding_box()
        assert box["x"] + box["width"] <= panel["x"], stage
        page.press("Escape")


PIXELS = """
() => [...document.querySelectorAll("#screen .in-row canvas.cells")].map(canvas => canvas.toDataURL())
"""
PLAYED = f"""
() => new Promise(done => {{
  const said = new Set();
  const pictures = new Set();
  document.querySelector('[data-key="move"]').click();
  const look = () => {{
    const readout = document.querySelector(".readout");
    if (readout.querySelector("b")) said.add(readout.textContent);
    pictures.add(({PIXELS})().join());
    const lit = [...document.querySelectorAll(".mark")].some(mark => mark.style.display === "block");
    lit || pictures.size < 5 ? requestAnimationFrame(look) : done([[...said], pictures.size]);
  }};
  requestAnimationFrame(look);
}})
"""
MASKED = "mask:decoder.layers.0.self_attention"
OTHERS = [pytest.param(stage, marks=pytest.mark.slow) for stage in ("scale", "softmax", "weighted-sum")]


@pytest.mark.parametrize("stage", ["scores", MASKED, "attention", *OTHERS])
def test_an_animated_equation_ends_unchanged(stage, open_page):
    """In between its colours change; each number that it says is the engine's."""
    text = page_of(transformer(), "you love the cat")
    still = open_page(text, f"#{stage}")
    assert still.page.locator('[data-key="move"]').count() == 0  # one who wants no motion
    page = open_page(exposed(text), f"#{stage}", bypass_csp=True, reduced_motion="no-preference")
    said, pictures = page.page.evaluate(PLAYED)
    assert pictures > 4
    assert page.page.evaluate(PIXELS) == still.page.evaluate(PIXELS)
    words = page.page.evaluate("() => page.tokensOf('source')")
    array = "() => [...page.record.arrays['encoder.layers.0.self_attention.scores'].data]"
    scores = page.page.evaluate(array)[: len(words) ** 2]
    for each in said:
        where, _, number = each.removeprefix("scores, ").partition(": ")
        query, key = (words.index(word) for word in where.split(" · "))
        assert float(number.replace("−", "-")) == pytest.approx(scores[query * len(words) + key], rel=6e-3)
    assert bool(said) == (stage in ("scores", "attention"))


def test_pointing_at_a_cell_stops_the_animation(open_page):
    text = page_of(transformer(), "you love the cat")
    page = open_page(text, "#scores", reduced_motion="no-preference")
    page.page.locator('[data-key="move"]').click()
    point_at(page, "scores", 1, 3)
    page.page.wait_for_timeout(100)
    assert page.page.evaluate(PIXELS) == open_page(text, "#scores").page.evaluate(PIXELS)
    assert page.page.evaluate(MARKS)["scores"] == [1, 3, 1, 1]
