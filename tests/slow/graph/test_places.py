"""Where things stand on the page of a graph, in a real browser: stacks, names, a map, a phone."""

import re

import pytest

import minigrad as mg
from minigrad.graph.folding import ALL
from minigrad.graph.labels import text_width
from tests.graph.pages import gpt, lstm, network, scalar, transformer
from tests.graph.test_page import INSIDE, PHONE, assert_same_places, drawn


def test_unfolded_boxes_have_the_positions_of_the_svg(open_page):
    graph = transformer()
    page = open_page(graph)
    page.page.get_by_role("button", name="Unfold everything").click()
    assert_same_places(page, graph.expand())


def test_a_stack_shows_the_chosen_member(open_page):
    graph = transformer()
    stack = next(g for g in graph.groups if g.is_stack)
    page = open_page(graph.expand(graph.groups[stack.groups[0]].path))
    page.click(f"g{stack.index}")  # folds
    page.page.locator(f"#g{stack.index}").focus()
    page.press("Enter")  # unfolds, and the panel has the choice
    assert f"2 × {stack.kind}" in page.text("#panel .kind")
    for choice in (1, 0):
        page.page.locator("#member").select_option(str(choice))
        names = drawn(page)
        members = [m for m in stack.groups if any(f"v{v}" in names for v in graph.groups[m].vertices)
                   or any(f"g{g}" in names for g in graph.groups[m].groups)]  # fmt: skip
        assert members == [stack.groups[choice]]
    page.page.locator("#member").select_option(str(ALL))
    assert all(f"g{member}" in drawn(page) for member in stack.groups)


def test_names_fit_their_boxes_and_are_not_covered(open_page):
    """Each text is inside its box or tab, and what is seen at a tab is the tab."""
    page = open_page(transformer(layers=1).expand(), reduced_motion="reduce", device_scale_factor=0.25)
    page.page.set_viewport_size({"width": 3000, "height": 9000})
    page.press("0")
    wrong = page.page.evaluate(
        """() => [...document.querySelectorAll("#world .box, #world .name")].flatMap(box => {
            const body = box.querySelector(".body, .tab").getBoundingClientRect();
            const out = [...box.querySelectorAll("text")].filter(text => {
                const { left, right } = text.getBoundingClientRect();
                return left < body.left || right > body.right;
            });
            const y = body.top + body.height / 2;
            const at = [0.1, 0.3, 0.5, 0.7, 0.9].map(x => body.left + x * body.width);
            const seen = at.map(x => document.elementFromPoint(x, y));
            const covered = box.matches(".name") && !seen.every(element => box.contains(element));
            return out.length || covered ? [box.textContent] : [];
        })"""
    )
    assert wrong == []
    assert page.page.locator("#world .tab").count() > 20


def test_text_is_no_wider_than_estimated(browser):
    """In the widest of the usual fonts: DejaVu Sans, where the machine has it."""
    page = browser.new_page()
    for text in ("WWWWMMMM@@%%", "iiiillll", "名前の長いテンソル", "Ünïcödé…"):
        for pixels, bold in ((15, True), (12.5, False)):
            found = page.evaluate(
                """([text, font]) => {
                    const pen = document.createElement("canvas").getContext("2d");
                    pen.font = font;
                    return pen.measureText(text).width;
                }""",
                [text, f"{'bold ' * bold}{pixels}px 'DejaVu Sans', Verdana, sans-serif"],
            )
            assert found <= text_width(text, pixels, bold), (text, bold)
    page.close()


def test_fit_shows_exactly_the_whole_graph(open_page):
    """It fills the window in one direction, whatever is unfolded."""
    page = open_page(transformer(), reduced_motion="reduce")
    for fold in ("Unfold everything", "Fold as at the start"):
        page.page.get_by_role("button", name=fold).click()
        page.page.get_by_role("button", name="Fit the graph").click()
        left, top, right, bottom = page.page.evaluate(SPACE)
        assert min(left, top, right, bottom) > 2
        assert min(left + right, top + bottom) < 60


SPACE = """() => {
    const all = document.getElementById("canvas").getBoundingClientRect();
    const boxes = [...document.querySelectorAll("#world .body, #world .frame, #world .line")].map(
        box => box.getBoundingClientRect());
    return [
        Math.min(...boxes.map(box => box.left)) - all.left,
        Math.min(...boxes.map(box => box.top)) - all.top,
        all.right - Math.max(...boxes.map(box => box.right)),
        all.bottom - Math.max(...boxes.map(box => box.bottom)),
    ];
}"""


SCREENS = ((1440, 900), (1280, 720), (390, 844))


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("make", [transformer, gpt, lstm])
def test_the_whole_graph_is_visible_on_opening(make, screen, open_page):
    """All of it can be read, and of a Transformer the encoder stands left of the decoder."""
    width, height = screen
    page = open_page(make(), viewport={"width": width, "height": height})
    assert min(page.page.evaluate(SPACE)) > 0
    assert page.page.evaluate("document.documentElement.scrollWidth") == width
    smallest = page.page.evaluate(
        """Math.min(...[...document.querySelectorAll("#world .title")].map(
            text => text.getBoundingClientRect().height))"""
    )
    assert smallest > (9 if width > 1000 else 6)
    if make is transformer:
        place = {
            name: page.page.get_by_role("button", name=re.compile(f"^{name}, ")).first.bounding_box()
            for name in ("encoder", "decoder", "embedding", "encoder_positions")
        }
        encoder, decoder = place["encoder"], place["decoder"]
        assert encoder["x"] + encoder["width"] < decoder["x"]
        assert abs(encoder["y"] - decoder["y"]) < 40  # the name of an open part stands on its border
        assert page.page.locator(".name", has_text="embedding").count() == 0


def test_no_line_is_behind_a_label(open_page):
    """Followed pixel by pixel, with everything unfolded: names of parts, and boxes."""
    for graph in (transformer(layers=1), lstm()):
        for fold in (graph, graph.fold(1), graph.fold(2), graph.expand()):
            assert open_page(fold, reduced_motion="reduce").page.evaluate(HIDDEN) == []


HIDDEN = """() => {
    const world = document.getElementById("world");
    const inWorld = element => {
        const { x, y, width, height } = element.getBBox();
        const { e, f } = element.closest("[transform]").transform.baseVal.consolidate().matrix;
        return { left: x + e, top: y + f, right: x + e + width, bottom: y + f + height };
    };
    const labels = [...world.querySelectorAll(".tab, .knob circle, .box .body")].map(
        label => [label, inWorld(label)]);
    const found = [];
    for (const line of world.querySelectorAll(".line")) {
        const length = line.getTotalLength();
        for (let at = 1; at < length - 1; at += 2) {
            const { x, y } = line.getPointAtLength(at);
            const hit = labels.find(([label, box]) =>
                x > box.left && x < box.right && y > box.top + 0.5 && y < box.bottom - 0.5);
            if (hit) { found.push(hit[0].closest("[role=button]").textContent); break; }
        }
    }
    return found;
}"""


def test_drawing_and_panel_are_both_visible_on_a_phone(open_page):
    page = open_page(network(), **PHONE)
    size = lambda box: page.page.locator(box).bounding_box()
    assert page.page.evaluate("document.documentElement.scrollWidth") == 390
    assert size("header")["height"] < 60
    assert size("#canvas")["height"] > 300
    page.page.locator("#walk").click()
    for _ in range(2):
        page.page.locator("#next-step").click()
    assert page.page.evaluate(INSIDE, ["#canvas .current", "#canvas"])
    assert page.page.evaluate(INSIDE, ["#panel .steps", "#panel"])
    assert page.page.evaluate(INSIDE, ["#panel td", "body"])
    assert page.page.locator("#search").is_hidden()
    assert page.page.locator("#legend").is_hidden()
    page.page.locator("#tools-button").click()
    page.page.locator("#legend-button").click()
    assert page.page.evaluate(INSIDE, ["#search", "body"])
    assert page.page.evaluate(INSIDE, ["#legend li:last-child", "#graph"])
    assert page.violations() == []
    page.press("Escape")
    assert page.page.locator("#search").is_hidden()


def test_the_border_between_drawing_and_panel_moves(open_page):
    page = open_page(network())
    width = lambda: page.page.locator("#panel").bounding_box()["width"]
    before = width()
    splitter = page.page.locator("#splitter")
    splitter.focus()
    page.press("ArrowLeft", "ArrowLeft")
    assert width() == pytest.approx(before + 144, abs=2)
    at = splitter.bounding_box()
    page.page.mouse.move(at["x"] + 4, 400)
    page.page.mouse.down()
    page.page.mouse.move(1000, 400)
    page.page.mouse.up()
    assert width() == pytest.approx(440, abs=3)
    assert splitter.get_attribute("aria-valuenow") == "31"
    splitter.dblclick()
    assert width() == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_stacks_have_no_accessibility_violations(scheme, open_page):
    page = open_page(transformer(), color_scheme=scheme)
    page.page.get_by_role("button", name="decoder").first.dispatch_event("click")
    assert page.violations() == []


def test_unfolding_everything_keeps_visible_boxes_in_view(open_page):
    """As large as it was, so that it can still be read."""
    page = open_page(transformer())
    seen = """() => [...document.querySelectorAll('#world [role=button]')].filter(box => {
        const [at, all] = [box, document.getElementById('canvas')].map(e => e.getBoundingClientRect());
        return at.right > all.left && at.left < all.right && at.bottom > all.top && at.top < all.bottom;
    }).map(box => box.id)"""
    scale = lambda: page.page.evaluate("new DOMMatrix(document.getElementById('world').style.transform).a")
    boxes = page.page.evaluate(seen)
    size = scale()
    page.page.get_by_role("button", name="Unfold everything").click()
    assert len(set(boxes) & set(page.page.evaluate(seen))) >= 3
    assert scale() == size


def test_search_finds_parts_of_fused_operations(open_page):
    graph = transformer(layers=1).fold(0)
    page = open_page(graph)
    page.press("/")
    page.page.keyboard.type("softmax")
    page.press("Enter")
    fused = [v for v in graph.vertices if "softmax" in v.parts]
    assert {v.name for v in fused} == {"multi_head_attention", "cross_entropy"}
    assert page.text("#matches") == f"1 of {len(fused)}"
    assert re.match("One kernel for .*softmax", page.text("#panel .parts"))


def test_large_counts_have_thousands_separators():
    x = y = scalar(1.0)
    for _ in range(1000):
        y = y * 1.0001
    assert "<p>1,000 operations on 1 input.</p>" in mg.graph.trace(y, {"x": x}, check=False).to_html()
