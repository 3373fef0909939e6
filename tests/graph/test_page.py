"""The page of a graph, in a real browser: what it shows, what its keys do, and what it never does."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn
from minigrad.autograd import checkpoint
from minigrad.graph.folding import ALL, Fold
from minigrad.graph.labels import lines, number, size, text_width, title_width
from minigrad.graph.page import MATHML, _asset, _Data, letters, mathml, to_html
from minigrad.graph.placing import Placing
from minitransformer import Transformer, TransformerConfig


def scalar(x):
    return mg.tensor(x, dtype=mg.float64, requires_grad=True)


def expression():
    """micrograd's kind of expression: a value used three times, one used twice by one op."""
    a, b = scalar(-4.0), scalar(2.0)
    c = a * b
    d = c * c + a
    e = d.relu() + b / a
    return mg.graph.trace(e, {"a": a, "b": b, "c": c, "d": d, "e": e}, title="An expression")


def network():
    """Two layers, whose arrays are small enough to be shown whole."""
    mg.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    loss = F.cross_entropy(model(mg.randn(5, 3)), mg.tensor(np.array([0, 1, 1, 0, 1])))
    return mg.graph.trace(loss, model, title="A network")


def transformer(size=8, layers=2, vocabulary=20):
    config = TransformerConfig(
        vocab_size=vocabulary, d_model=size, num_heads=2 if size < 512 else 8, d_ff=4 * size,
        num_encoder_layers=layers, num_decoder_layers=layers,
    )  # fmt: skip
    model, generator = Transformer(config), np.random.default_rng(0)
    source, target, labels = (mg.tensor(generator.integers(4, vocabulary, (2, 6))) for _ in range(3))
    loss = F.cross_entropy(model(source, target).reshape(-1, vocabulary), labels.reshape(-1))
    return mg.graph.trace(loss, model, title="A Transformer")


def find(graph, name, kind="op"):
    """The vertex of that name or label."""
    return next(v for v in graph.vertices if v.kind == kind and name in (v.name, v.label))


def shown(numbers):
    """Numbers as the page shows them; it has no minus zero."""
    return [number(float(x) + 0.0) for x in np.asarray(numbers).reshape(-1)]


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize("make", [expression, network, transformer])
def test_opens_in_silence_and_asks_for_nothing(make, open_page):
    page = open_page(make())
    assert page.page.locator("#canvas .box").count() > 4
    assert "How to read this" in page.text("#panel h2")


def without_gradients():
    x = mg.tensor(np.ones((2, 3)), requires_grad=True)
    return mg.graph.trace(x * 2.0, {"x": x})


def several_results():
    x = mg.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    first, second = x.split([1, 2])
    return mg.graph.trace([(first * second).sum(), second.max(0)[0].sum()], {"x": x})


def nothing_in_it():
    x = mg.tensor(np.zeros((0, 3)), requires_grad=True)
    return mg.graph.trace((x * x).sum(), {"x": x})


@pytest.mark.parametrize("make", [without_gradients, several_results, nothing_in_it])
def test_shows_every_box_and_step_of_what_is_unusual(make, open_page):
    graph = make()
    page = open_page(graph)
    for v in graph.vertices:
        page.click(f"v{v.index}")
        assert page.text("#panel h2")
    assert (page.page.locator("#walk").count() == 1) is (make is not without_gradients)
    page.press("b", "q", *["ArrowRight"] * len(graph.vertices))
    assert not re.search(r"undefined|null|\[object", page.text("#panel"))
    if make is without_gradients:
        page.press("Escape")
        assert "No gradients: the output is not one number" in page.text("#panel")


def test_allows_one_script_and_one_style_sheet(open_page):
    """A page whose script was changed by one letter does not run it; no attribute is code or style."""
    text = expression().to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text.split("<script")[0])
    page = open_page(text.replace("const graph = readGraph", "const  graph = readGraph"))
    assert page.page.locator("#canvas").count() == 0
    assert "Content Security Policy" in page.complaints.pop(0)


def test_shows_the_picture_where_no_script_runs(open_page):
    page = open_page(expression(), java_script_enabled=False)
    assert page.page.locator("#graph svg title").first.text_content().startswith("An expression")
    assert page.page.locator("#toolbar").is_hidden()


def test_says_when_numbers_are_left_out(open_page):
    graph = network()
    page = open_page(to_html(graph.folding, limit=0))
    page.click(f"v{find(graph, 'tanh').index}")
    assert "left out to keep the page small" in page.text("#panel")
    assert "norm" in page.text("#panel .statistics")


NASTY = [
    "</script><script>document.title='hacked'</script>",
    "<img src=x onerror=document.title='hacked'>",
    "$title \\u003c &lt;",
]


def test_names_are_never_code(open_page):
    x, y, z = (mg.tensor([1.0, -np.inf, np.nan], requires_grad=True) for _ in NASTY)
    graph = mg.graph.trace((x * y * z).sum(), dict(zip(NASTY, (x, y, z), strict=True)), title=NASTY[0])
    page = open_page(graph)
    assert page.page.title() == NASTY[0]
    assert page.page.locator("img").count() == 0
    for name in NASTY:
        page.click(f"v{find(graph, name, 'input').index}")
        assert page.text("#panel h2") == name
        assert page.texts("#panel td")[:3] == ["1", "-inf", "nan"]
        assert "1 NaN, 1 infinite of 3 numbers" in page.text("#panel .warning")


# ---------------------------------------------------------------- where things stand


def placed(graph):
    """The left, top and width of each box, as the SVG has them."""
    folding = graph.folding
    boxes = list(folding.boxes())
    sizes = {b: size(lines(graph, b)) for b in boxes if b[0] == "vertex" or not folding.is_open(b[1])}
    titles = {i: title_width(graph.groups[i]) for kind, i in boxes if kind == "group"}
    found = {}

    def walk(frame, left, top):
        for row, places in zip(frame.rows, frame.places, strict=True):
            for (kind, index, _), (x, y, w, _) in zip(row, places, strict=True):
                if kind != "lane":
                    found[f"{kind[0]}{index}"] = [left + x, top + y, w]
                if kind == "group" and index in frame.frames:
                    walk(frame.frames[index], left + x, top + y)

    walk(Placing(folding, sizes, titles).frame(), 0.0, 0.0)
    return found


def drawn(page):
    """The same, read from the page."""
    return page.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#world [role=button]")].map(box => {
            const [x, y] = box.getAttribute("transform").match(/-?\\d[-\\d.e]*/g).map(Number);
            return [box.id, [x, y, Number(box.querySelector(".body, .target").getAttribute("width"))]];
        }))"""
    )


def assert_same_places(page, graph):
    expected, found = placed(graph), drawn(page)
    assert set(found) == set(expected)
    for box, place in expected.items():
        assert found[box] == pytest.approx(place, abs=1e-6), box


@pytest.mark.parametrize("make", [expression, network, transformer])
def test_boxes_stand_where_the_svg_has_them(make, open_page):
    graph = make()
    assert_same_places(open_page(graph), graph)


def test_boxes_stand_where_the_svg_has_them_with_everything_open(open_page):
    graph = transformer()
    page = open_page(graph)
    page.page.get_by_role("button", name="Unfold everything").click()
    assert_same_places(page, graph.expand())


def test_a_stack_shows_the_member_that_is_chosen(open_page):
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


INSIDE = """([inner, outer]) => {
    const [a, b] = [inner, outer].map(each => document.querySelector(each).getBoundingClientRect());
    return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
}"""


def test_names_fit_and_nothing_crosses_them(open_page):
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


def test_a_text_is_no_wider_than_its_letters_say(browser):
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


def test_what_is_too_large_to_be_read_as_a_whole_has_a_map(open_page):
    graph = transformer()
    page = open_page(graph)
    scale = lambda: page.page.evaluate("new DOMMatrix(document.getElementById('world').style.transform).a")
    page.page.get_by_role("button", name="Unfold everything").click()
    page.page.get_by_role("button", name="Fit the graph").click()
    assert scale() >= 0.5
    assert "see the map" in page.text("#announcer")
    shown = page.page.locator("#map").bounding_box()
    page.page.mouse.click(shown["x"] + shown["width"] - 6, shown["y"] + shown["height"] - 4)
    output = next(v for v in graph.vertices if v.is_output)
    assert page.page.evaluate(INSIDE, [f"#v{output.index}", "#canvas"])
    page.page.get_by_role("button", name="Fold as at the start").click()
    for _ in range(6):
        page.press("-")
    assert page.page.locator("#map").is_hidden()


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_on_a_phone_drawing_and_numbers_are_seen_together(open_page):
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
    before, splitter = width(), page.page.locator("#splitter")
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


# ---------------------------------------------------------------- the panel


@pytest.mark.parametrize("make", [expression, network])
def test_the_panel_shows_each_number_of_each_box(make, open_page):
    graph = make()
    page = open_page(graph)
    for v in graph.vertices:
        page.click(f"v{v.index}")
        sections = page.page.locator("#panel section")
        for title, snapshot in (("Value", v.value), ("Gradient", v.gradient)):
            if snapshot is None:
                continue
            section = sections.filter(has=page.page.get_by_role("heading", name=title, exact=True))
            found = section.locator("td, p.number").all_inner_texts()
            assert [text for text in found if text] == shown(snapshot.numbers), (v.name, title)
            if snapshot.size > 1:
                s = snapshot.statistics
                assert section.locator(".statistics dd").all_inner_texts() == shown(
                    [s.min, s.mean, s.max, s.std, s.norm]
                )


def test_the_panel_shows_formulas_as_mathematics(open_page):
    graph = expression()
    page = open_page(graph)
    page.click(f"v{find(graph, 'c').index}")
    assert page.page.locator("#panel math").count() == 2
    assert page.page.locator("#panel math msup, #panel math mi").count() > 3
    assert "c = a * b" in page.text("#panel pre")
    assert "test_page.py:" in page.text("#panel figcaption")


def test_every_formula_of_the_library_is_mathematics():
    from tools.reference import formulas

    for _, latex in formulas():
        shown = mathml(latex)
        assert "mtext>\\" not in shown, latex
        assert {e.tag.split("}")[0] for e in ElementTree.fromstring(shown).iter()} == {MATHML[:-1]}
        assert "mover" not in shown or "class" in shown or "hat" in latex or "tilde" in latex, latex


def test_a_formula_that_is_none_is_shown_as_its_text():
    assert mathml(r"\text{<img onerror=x>}").endswith(r"<mtext>\text{&lt;img onerror=x&gt;}</mtext></math>")


def test_numbers_have_six_digits_as_in_python(open_page):
    values = [
        1.0,
        -0.1,
        1 / 3,
        1e-5,
        123456.0,
        1234567.0,
        1e22,
        -2.5e-7,
        0.000123456789,
        999999.5,
        100000.5,
        1e-300,
    ]
    x = mg.tensor(values, dtype=mg.float64, requires_grad=True)
    graph = mg.graph.trace(x.sum(), {"x": x})
    page = open_page(graph)
    page.click("v0")
    assert page.texts("#panel td")[: len(values)] == shown(values)


def test_a_large_array_shows_its_corner_and_says_so(open_page):
    x = mg.tensor(np.arange(600.0).reshape(20, 30), requires_grad=True)
    page = open_page(mg.graph.trace((x * x).sum(), {"x": x}))
    page.click("v0")
    assert "The first 6 × 6 of 20 × 30 numbers" in page.text("#panel")
    assert page.texts("#panel td")[:8] == ["", *shown([0, 1, 2, 3, 4, 5, 30])]


def test_a_wide_table_gets_smaller_letters_and_a_wider_one_says_that_it_scrolls(open_page):
    five, forty = (mg.tensor(np.pi * np.ones((2, n)), requires_grad=True) for n in (5, 40))
    page = open_page(mg.graph.trace(five.sum() + forty.sum(), {"five": five, "forty": forty}))
    state = """() => [...document.querySelectorAll("#panel .tables")].slice(0, 1).map(table =>
        [table.scrollWidth > table.clientWidth + 1, table.classList.contains("wide")])[0]"""
    page.page.set_viewport_size({"width": 1200, "height": 900})
    for index, expected in (("v0", [False, False]), ("v1", [True, True])):
        page.click(index)
        assert page.page.evaluate(state) == expected
        assert (
            float(page.page.evaluate("getComputedStyle(document.querySelector('#panel td')).fontSize")[:-2])
            >= 11
        )


def test_leaves_are_held_against_finite_differences(open_page):
    graph = expression()
    page = open_page(graph)
    leaf = find(graph, "a", "input")
    page.click(f"v{leaf.index}")
    backward, numeric = page.texts("#panel .checks td")[:2]
    assert backward == shown(leaf.gradient.numbers)[0]
    assert numeric == number(leaf.checks[0].numeric)
    assert "agree" in page.text("#panel .checks")


def test_a_group_says_what_it_has(open_page):
    graph = network()
    page = open_page(graph)
    group = next(g for g in graph.groups if g.kind == "Linear")
    page.click(f"g{group.index}")
    assert "16 numbers in 2 tensors" in page.text("#panel")
    assert "linear" in page.text("#panel .hint")


# ---------------------------------------------------------------- by keyboard alone


def test_arrows_lead_from_box_to_box(open_page):
    graph = expression()
    page = open_page(graph)
    page.page.locator("#world [tabindex='0']").focus()
    seen = set()
    for key in ["ArrowDown"] * 4 + ["ArrowLeft", "ArrowRight", "ArrowUp"]:
        page.press(key)
        focus = page.page.evaluate("document.activeElement.id")
        assert page.text("#panel h2") in (
            graph.vertices[int(focus[1:])].label,
            *lines(graph, ("vertex", int(focus[1:]))),
        )
        seen.add(focus)
    assert len(seen) >= 4


def test_enter_folds_and_unfolds(open_page):
    graph = network()
    page = open_page(graph)
    group = next(g for g in graph.groups if g.kind == "Linear")
    page.page.locator(f"#g{group.index}").focus()
    page.press("Enter")
    folded = Fold(graph.folding.fold.opened - {group.index})
    assert_same_places(page, replace(graph, folded=folded))
    assert page.page.evaluate("document.activeElement.id") == f"g{group.index}"
    assert page.page.locator(f"#g{group.index}").get_attribute("aria-expanded") == "false"
    page.press(" ")
    assert_same_places(page, graph)
    assert "unfolded" in page.text("#announcer")


def test_search_opens_what_is_around_a_match(open_page):
    graph = transformer().fold(0)
    page = open_page(graph)
    assert page.page.locator("#canvas .box").count() < 8
    page.press("/")
    page.page.keyboard.type("attention linear weight")
    found = [
        v for v in graph.vertices if v.kind == "parameter" and "attention" in v.name and "weight" in v.name
    ]
    page.page.keyboard.press("Enter")
    first = page.text("#panel h2")
    assert re.match(r"1 of \d+", page.text("#matches"))
    assert "attention" in page.text("#panel .breadcrumb")
    assert page.page.locator("#canvas .selected").is_visible()
    page.press("Enter")
    assert page.text("#matches").startswith("2 of")
    page.press("Shift+Enter")
    assert page.text("#panel h2") == first
    assert found
    page.press("Escape")
    assert page.text("#matches") == ""


def test_search_finds_source_lines(open_page):
    page = open_page(expression())
    page.press("/")
    page.page.keyboard.type("d.relu()")
    page.press("Enter")
    assert "relu" in page.text("#panel pre")


def test_search_finds_what_is_in_a_fused_operation(open_page):
    graph = transformer(layers=1).fold(0)
    page = open_page(graph)
    page.press("/")
    page.page.keyboard.type("softmax")
    page.press("Enter")
    fused = [v for v in graph.vertices if "softmax" in v.parts]
    assert {v.name for v in fused} == {"multi_head_attention", "cross_entropy"}
    assert page.text("#matches") == f"1 of {len(fused)}"
    assert re.match("One kernel for .*softmax", page.text("#panel .parts"))


def test_keys_move_and_zoom(open_page):
    page = open_page(expression())
    transform = lambda: page.page.evaluate("document.getElementById('world').style.transform")
    seen = [transform()]
    for key in ("+", "-", "Shift+ArrowLeft", "Shift+ArrowDown", "0"):
        page.press(key)
        assert transform() != seen[-1]
        seen.append(transform())


def test_colours_come_with_a_legend_and_marks(open_page):
    x = mg.tensor([np.inf, 1.0], requires_grad=True)
    y = mg.tensor([1.0, 1.0], requires_grad=True)
    graph = mg.graph.trace((x * 1e-12).sum() + (y * 1e-12).sum(), {"x": x, "y": y})
    page = open_page(graph)
    assert "not finite (hatched)" in page.text("#legend")
    assert "NaN/∞" in page.page.locator(f"#v{find(graph, 'multiply').index}").text_content()
    for mode, word in (("gradient", "vanish"), ("bytes", "below 1 KiB"), ("flops", "below 1 k")):
        page.page.locator("#colour").select_option(mode)
        assert word in page.text("#legend")


def test_what_a_mask_put_in_is_no_alarm():
    x = mg.tensor(np.ones((1, 3, 2)), requires_grad=True)
    with mg.fused(False):
        masked = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    graph = mg.graph.trace((masked * masked).sum(), {"x": x}).expand()
    assert not find(graph, "filled").value.finite
    assert "not finite" not in graph.to_svg()
    assert "not finite" in mg.graph.trace((masked * np.inf).sum(), {"x": x}).expand().to_svg()


# ---------------------------------------------------------------- the walk


def by_hand(a, b):
    """The gradients of `expression`, written out."""
    c = a * b
    d = c * c + a
    dd = 1.0 if d > 0 else 0.0
    dc = 2 * c * dd
    return {"a": dc * b + dd - b / a**2, "b": dc * a + 1 / a, "c": dc, "d": dd, "e": 1.0}


def test_the_walk_shows_each_step_of_backward(open_page):
    graph = expression()
    page = open_page(graph)
    page.press("b")
    ops = [v for v in reversed(graph.vertices) if v.kind == "op"]
    expected = by_hand(-4.0, 2.0)
    for v in ops:
        page.press("ArrowRight")
        assert page.page.locator("#canvas .current").get_attribute("id") == f"v{v.index}"
        assert page.texts("#panel section:not(.card) p.number") == shown(v.gradient.numbers)
        if v.label:
            assert page.texts("#panel section:not(.card) p.number") == shown([expected[v.label]])
        for edge in (e for e in v.inputs if e.gradient is not None):
            card = f"#panel .card[data-place='{v.inputs.index(edge)}']"
            local, g = edge.jacobian.item(), v.gradient.numbers.item()
            assert page.texts(f"{card} p.number")[0] == number(local + 0.0)
            factors = re.findall(
                r"[-\d.e+]+", page.text(f"{card} [data-result]").replace("(", "").replace(")", "")
            )
            assert [float(x) for x in factors if x != "="] == pytest.approx([g, local, g * local], rel=1e-5)
    page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")
    cells = page.texts("#panel .checks td")
    assert cells[0::3] == shown([expected["a"], expected["b"]])
    assert [float(x) for x in cells[1::3]] == pytest.approx([expected["a"], expected["b"]], rel=1e-5)
    assert cells[2::3] == ["✓ agree"] * 2
    page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")


def test_the_walk_shows_arrays_as_they_are(open_page):
    graph = network()
    page = open_page(graph)
    page.press("b")
    for v in (v for v in reversed(graph.vertices) if v.kind == "op"):
        page.press("ArrowRight")
        cells = page.page.locator("#panel section:not(.card)").locator("td, p.number").all_inner_texts()
        assert [text for text in cells if text] == shown(v.gradient.numbers)
        for place, edge in enumerate(v.inputs):
            if edge.gradient is not None:
                result = page.texts(f".card[data-place='{place}'] [data-result] td")
                assert [text for text in result if text] == shown(edge.pulled.numbers)
        assert page.page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_the_walk_says_what_the_letters_stand_for(open_page):
    x = scalar(-7.0)
    page = open_page(mg.graph.trace(x**2, {"x": x}))
    page.press("b", "ArrowRight")
    assert page.text("#panel .given") == "x = x = -7, y = 2"
    assert page.page.locator("#panel .formula msup").count() == 1
    assert "1 × (-14) = -14" in page.text("#panel [data-result]")


def test_a_link_leads_to_a_step(open_page):
    page = open_page(expression(), fragment="#step=2")
    assert page.text("#panel .progress").startswith("Step 2 of")
    page.page.evaluate("location.hash = '#step=1'")
    page.page.locator("#panel .progress", has_text="Step 1 of").wait_for()


def test_the_walk_adds_up_where_a_value_fans_out(open_page):
    """x * x and x * 3: the last edge adds what it brings to what arrived before."""
    x = scalar(2.0)
    y = x * 3.0
    page = open_page(mg.graph.trace(y + x * x, {"x": x}))
    page.press("b", "End", "ArrowLeft")
    assert "grad of x = 3 (this edge) + 4 (earlier) = 7" in page.text("#panel")
    page.press("ArrowLeft")
    assert "grad of x = 2 (this edge) + 2 (earlier) = 4" in page.text("#panel")
    assert "used 3 times. This is the first gradient to arrive. 2 uses to come." in page.text("#panel")
    assert "gradient 4 + …" in page.page.locator("#v0").text_content()


def test_the_walk_adds_arrays_as_backward_did(open_page):
    """To the last bit of float32, in the order of the walk."""
    x = mg.tensor(np.random.default_rng(2).standard_normal((2, 2)).astype("float32"), requires_grad=True)
    graph = mg.graph.trace((x.exp() + x.sin() * x).sum(), {"x": x})
    page = open_page(graph)
    page.press("b", "End", "ArrowLeft")
    table = page.page.locator("#panel .added table").last
    found = table.locator("td:not(:empty)").all_inner_texts()
    assert found == shown(find(graph, "x", "input").gradient.numbers)
    assert "Complete." in page.text("#panel .added")


def test_the_walk_begins_where_an_output_is_used_as_well(open_page):
    x = scalar(2.0)
    y = x * 3.0
    page = open_page(mg.graph.trace([y, y * y], {"x": x, "y": y}))
    page.press("b", "ArrowRight")  # y * y: what comes first is that y is an output
    assert "grad of y = 6 (this edge) + 1 (earlier) = 7" in page.text("#panel .card[data-place='0']")
    assert "grad of y = 6 (this edge) + 7 (earlier) = 13" in page.text("#panel .card[data-place='1']")


def test_the_walk_sums_over_broadcast_axes(open_page):
    bias, x = (
        mg.tensor(np.arange(n, dtype=float).reshape(s), requires_grad=True)
        for n, s in ((3, (3,)), (6, (2, 3)))
    )
    graph = mg.graph.trace((x * bias).sum(), {"bias": bias, "x": x})
    page = open_page(graph)
    page.press("b", "ArrowRight", "ArrowRight")
    card = "#panel .card[data-place='1']"
    assert "expanded (3,) → (2, 3) in forward, summed over axis 0 in backward" in page.text(card)
    tables = page.page.locator(f"{card} table")
    pulled, summed = (tables.nth(i).locator("td:not(:empty)").all_inner_texts() for i in (1, 2))
    assert pulled == shown(x.array)
    assert summed == shown(x.array.sum(0))
    page.page.locator("#sum-1-2").click()
    assert page.text(f"{card} [data-sum]") == "2 + 5 = 7"


def test_a_cell_of_a_product_is_a_row_times_a_column(open_page):
    graph = network()
    vertex = [v for v in graph.vertices if v.name == "linear"][-1]
    x, weight = (graph.vertices[e.source].value.numbers for e in vertex.inputs[:2])
    g = vertex.gradient.numbers
    page = open_page(graph)
    page.press("b", "ArrowRight", "ArrowRight")
    for place, (left, right) in enumerate(((g, weight), (g.T, x))):
        page.page.locator(f"#cell-{place}-0").focus()
        page.press("ArrowRight", "ArrowDown", "Enter")
        i, j = 1, 1
        card = f"#panel .card[data-place='{place}']"
        assert f"Element [{i}, {j}] is row {i} of" in page.text(card)
        terms, _, total = page.text(f"{card} [data-terms]").partition(" = ")
        pairs = [[float(f.strip("()")) for f in term.split(" × ")] for term in terms.split(" + ")]
        assert pairs == [
            [float(number(a)), float(number(b))] for a, b in zip(left[i], right[:, j], strict=True)
        ]
        assert float(total) == pytest.approx(
            float((left.astype(float) @ right.astype(float))[i, j]), rel=2e-5
        )
        assert total == shown(vertex.inputs[place].pulled.numbers[i, j])[0]
        assert page.page.locator(f"{card} td.marked").count() == len(pairs) * 2
        assert page.page.evaluate("document.activeElement.id").startswith(f"cell-{place}-")


@pytest.mark.parametrize("shapes", [((3,), (3, 2)), ((2, 1, 2, 3), (2, 3, 2))])
def test_products_of_batches_and_vectors(shapes, open_page):
    generator = np.random.default_rng(1)
    x, y = (mg.tensor(generator.standard_normal(s), requires_grad=True) for s in shapes)
    z = x @ y
    graph = mg.graph.trace((z * z).sum(), {"x": x, "y": y})
    page = open_page(graph)
    page.press("b", "ArrowRight", "ArrowRight", "ArrowRight")
    for place in (0, 1):
        edge = find(graph, "matmul").inputs[place]
        for flat in {0, edge.pulled.size - 1}:
            page.page.locator(f"#cell-{place}-{flat}").click()
            terms, _, total = page.text(f".card[data-place='{place}'] [data-terms]").partition(" = ")
            products = [
                math.prod(float(f.strip("()")) for f in term.split(" × ")) for term in terms.split(" + ")
            ]
            assert sum(products) == pytest.approx(edge.pulled.numbers.reshape(-1)[flat], rel=1e-4, abs=1e-5)
            assert total == shown(edge.pulled.numbers.reshape(-1)[flat])[0]


PRODUCTS = [
    ((2, 1, 2), (2, 1)), ((2, 2, 3), (3, 2)), ((4, 2, 3), (3,)), ((3,), (2, 3, 4)), ((3,), (3,)),
    ((2, 3), (3,)), ((2, 3), (4, 3, 2)), ((2, 1, 2, 3), (4, 3, 2)), ((1, 2, 3), (4, 3, 1)),
    ((2, 3, 1, 2), (3, 2, 2)), ((2, 1, 2, 2), (1, 3, 2, 1)), ((1, 1), (1, 1)),
    ((2, 1, 1, 3), (1, 3, 1)), ((2, 3), (3, 0)),
]  # fmt: skip


def products():
    """(left, right, shapes, output) of matrix products and linear layers, random."""
    generator = np.random.default_rng(5)
    new = lambda s: mg.tensor(generator.standard_normal(s), requires_grad=True)
    for x, y in ((new(a), new(b)) for a, b in PRODUCTS):
        yield x, y, x @ y
    for shape in ((3,), (2, 3), (2, 2, 3), (2, 1, 2, 3)):
        x, y = new(shape), new((4, 3))
        yield x, y, F.linear(x, y, new((4,)))


def test_every_cell_of_every_product_is_the_sum_of_its_products(browser):
    """Also of an operand that stood in many batches, over which the rule has summed already."""
    graphs = []
    for x, y, z in products():
        weight = mg.tensor(np.random.default_rng(1).standard_normal(z.shape))
        graphs.append((mg.graph.trace((z * weight).sum(), {"x": x, "y": y}), x.array, y.array, weight.array))
    page = browser.new_page()
    found = page.evaluate(
        scripts("numbers.js", "data.js", "elements.js", "walk.js")
        + """
        return texts.map(text => {
            const graph = readGraph(text);
            const vertex = graph.vertices.find(v => ["matmul", "linear"].includes(v.name));
            return vertex.inputs.map(edge => range(edge.gradient.size).map(flat =>
                summedFrom(edge, flat).flatMap(place => arithmetic(graph, edge, place))));
        })}""",
        [_Data(graph.folding, "family").text(1_000_000) for graph, *_ in graphs],
    )
    page.close()
    for (graph, x, y, g), edges in zip(graphs, found, strict=True):
        vertex = next(v for v in graph.vertices if v.name in ("matmul", "linear"))
        for edge, cells, other in zip(vertex.inputs, edges, (y, x), strict=False):
            totals = [sum(math.prod(term) for term in terms) for terms in cells]
            expected = edge.gradient.numbers.reshape(-1)
            assert totals == pytest.approx(expected.tolist(), rel=1e-5, abs=1e-6), (x.shape, y.shape)
            factors = {round(float(factor), 4) for terms in cells for _, factor in terms}
            mine = {round(float(n), 4) for n in np.concatenate([other.reshape(-1), g.reshape(-1)])}
            assert factors <= mine, (x.shape, y.shape)


def scripts(*names):
    """The page's functions, to be called on `texts`."""
    return "texts => {" + "\n".join(map(_asset, names))


def test_a_product_in_many_batches_says_over_which_it_is_summed(open_page):
    x = mg.tensor([[[1.0, 2.0]], [[3.0, 4.0]]], requires_grad=True)
    weight = mg.tensor([[1.0], [1.0]], requires_grad=True)
    page = open_page(mg.graph.trace((x @ weight).sum(), {"x": x, "W": weight}))
    page.press("b", "ArrowRight", "ArrowRight")
    page.page.locator("#cell-1-0").click()
    card = "#panel .card[data-place='1']"
    said = "Element [0, 0] is row 0 of xᵀ times column 0 of g, summed over axis 0 of g: used in 2 batches"
    assert said in page.text(card)
    assert page.text(f"{card} [data-terms]") == "1 × 1 + 3 × 1 = 4"
    assert page.page.locator(f"{card} .factors").count() == 2


def chain():
    v = a = scalar(1.0001)
    for _ in range(4):
        v = v * 1.0001 + 0.001
    return mg.graph.trace(v, {"a": a})


@pytest.mark.parametrize("make", [network, chain])
def test_the_walk_bears_numbers_that_were_left_out(make, open_page):
    graph = make()
    page = open_page(to_html(graph.expand().folding, limit=0))
    page.press("b")
    for _ in graph.vertices:
        page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")
    page.press("q", "Home", *["ArrowRight"] * 4)
    page.page.locator("#colour").select_option("gradient")
    assert not re.search(r"undefined|null|NaN|\[object", page.text("body"))


def test_the_walk_opens_what_is_around_a_step(open_page):
    graph = transformer().fold(0)
    page = open_page(graph)
    page.press("b")
    for _ in range(12):
        page.press("ArrowRight")
        assert page.page.locator("#canvas .current").count() == 1
        assert page.page.locator("#canvas .box").count() <= 40
    page.press("Escape")
    assert page.page.locator("#panel .steps").count() == 0


def test_the_walk_says_where_a_hook_changed_a_gradient(open_page):
    """In the step where it arrives, at the leaf's end, and beside the finite differences."""
    x = mg.tensor([1.0, 2.0], dtype=mg.float64, requires_grad=True)
    q = x * 3.0
    q.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: None)  # it only looks
    page = open_page(mg.graph.trace((q * q + q).sum(), {"x": x, "q": q}))
    page.press("b", "ArrowRight", "ArrowRight", "ArrowRight")
    assert "A hook of q changes its gradient to" in page.text("#panel .card[data-place='1'] .added")
    page.press("ArrowRight")
    assert "A hook of q changed it. Before the hook:" in page.text("#panel .hook")
    tables = page.page.locator("#panel section:not(.card) table")
    assert [tables.nth(i).locator("td").all_inner_texts() for i in (0, 1)] == [["7", "13"], ["70", "130"]]
    assert page.text("#panel .card .checks").count("changed by a hook") == 2
    page.press("ArrowRight")
    assert page.texts("#panel .checks td")[-1] == "changed by a hook"


def test_a_hook_is_seen_in_large_arrays_and_where_nothing_changed_none_is(open_page):
    x = mg.tensor(np.random.default_rng(0).standard_normal((30, 30)), requires_grad=True)
    q = x * 3.0
    handle = q.register_hook(lambda g: g * 10)
    loss = (q * q + q).sum()
    hooked = mg.graph.trace(loss, {"x": x, "q": q}, check=False)
    handle.remove()
    plain = mg.graph.trace(loss, {"x": x, "q": q}, check=False)
    for graph, notes in ((hooked, 1), (plain, 0)):
        page = open_page(graph)
        page.press("b", "End", "ArrowLeft")
        assert page.page.locator("#panel .hook").count() == notes


def test_the_walk_begins_with_what_it_was_given(open_page):
    """Not with the gradient that an output has in the end."""
    x, y = scalar(2.0), scalar(5.0)
    o = x * 3.0
    page = open_page(mg.graph.trace([o, o * y], {"x": x, "y": y, "o": o}))
    page.press("b")
    assert page.texts("#panel section p.number") == ["1", "1"]
    page.press("ArrowRight")
    assert "grad of o = 5 (this edge) + 1 (earlier) = 6" in page.text("#panel")
    page.press("ArrowRight")
    assert "The sum of 2 gradients: its result is used 1 time, and is an output." in page.text("#panel")


def test_the_walk_adds_float16_as_backward_did(open_page):
    """What is too large for it becomes infinite."""
    x = mg.tensor([1.0, 2.0], dtype=mg.float16, requires_grad=True)
    seed = mg.tensor([64992.0, 0.1], dtype=mg.float16)
    graph = mg.graph.trace(x * 1.0 + x * 1.0 + x * 0.3, {"x": x}, gradient=seed)
    page = open_page(graph)
    page.press("b", "End", "ArrowLeft")
    found = page.page.locator("#panel .added table").last.locator("td").all_inner_texts()
    assert found == shown(find(graph, "x", "input").gradient.numbers)
    assert found[0] == "inf"


def test_the_page_rounds_to_float16_as_numpy_does(browser):
    numbers = np.random.default_rng(0).standard_normal(3000) * 10.0 ** np.arange(-9, 6).repeat(200)
    halves = np.arange(1, 40) * 0.5 * 2.0**-24
    numbers = [*numbers.tolist(), *halves.tolist(), 2049.0, 2051.0, 65519.9, 65520.0, 2.0**-14]
    page = browser.new_page()
    found = page.evaluate(scripts("walk.js") + "return texts.map(roundHalf)}", numbers)
    page.close()
    with np.errstate(over="ignore"):
        assert found == np.array(numbers).astype(np.float16).tolist()


def test_the_walk_says_why_a_derivative_is_not_shown(open_page):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda x: (x * x).exp(), x)
    empty = mg.tensor(np.zeros((0, 3)), requires_grad=True)
    large = mg.tensor(np.ones((9, 9)), requires_grad=True)
    graph = mg.graph.trace(y.sum() + (empty * empty).sum() + (large * large).sum(), {"x": x, "empty": empty})
    page = open_page(graph)
    page.press("b")
    for name, said in (
        ("checkpoint", "A checkpoint has no rule of its own"),
        ("empty", "An empty array has no local derivative"),
        ("large", "too many numbers to show"),
    ):
        shape = {"checkpoint": (2,), "empty": (0, 3), "large": (9, 9)}[name]
        v = next(v for v in graph.vertices if v.name in ("checkpoint", "multiply") and v.value.shape == shape)
        page.click(f"v{v.index}")
        assert said in page.text("#panel .card")


def test_formulas_say_what_their_letters_are(open_page):
    x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = mg.add(x, x + x, alpha=3)
    graph = mg.graph.trace(F.elu(y).mean(0).sum() + x.sigmoid().sum() + F.mse_loss(x, x * 2), {"x": x})
    page = open_page(graph)
    expected = {
        "mean": ["n = 2"],
        "elu": ["alpha = 1.0, scale = 1.0, input_scale = 1.0"],
        "sigmoid": ["σ(x) = 1 / (1 + e⁻ˣ)"],
        "add": [],
    }
    for name, said in expected.items():
        page.click(f"v{find(graph, name).index}")
        assert page.texts("#panel .letters") == [line.replace("alpha", "α") for line in said] or name == "add"
    adds = {letters(v, f) for v in graph.vertices if v.name == "add" for _, f in v.formulas}
    assert {"", "α = 1", "α = 3"} == adds
    doubled = find(graph, "multiply")
    assert {letters(doubled, f) for _, f in doubled.formulas} <= {"", "y = 2"}


def test_no_derivative_of_an_elementwise_op_looks_coupled():
    """0 times what is not finite is NaN, but no element depends on another."""
    z = mg.tensor([0.0, 1.0, np.inf, np.nan], requires_grad=True)
    with np.errstate(all="ignore"):
        graph = mg.graph.trace((z.log() * z).sum(), {"z": z})
    edges = [e for v in graph.vertices if v.name in ("log", "multiply") for e in v.inputs]
    assert all(e.elementwise for e in edges)
    assert np.isposinf(edges[0].jacobian[0, 0])


# ---------------------------------------------------------------- finite differences

QUIRKS = {
    "cancelling": ([1e-3, 1e4], lambda x: (x**2).sum(), "agree agree"),
    "beside 1e7": ([1.0, 2.0], lambda x: (x * 1e-3).sum() + 1e7, "agree agree"),
    "after 1e7": ([1.0, 2.0], lambda x: (x * 1e-3).sum() + 1e7 - 1e7, "agree agree"),
    "lost in f": ([30.0, 1e-9], lambda x: (x.exp() + x.square()).sum(), "agree unsure"),
    "on a kink": ([0.0, 1.0, 3e-7], lambda x: x.relu().sum(), "kink agree agree"),
    "at a jump": ([1.0, 1.5], lambda x: x.floor().sum(), "jump agree"),
    "not finite": ([0.0, 1.0, np.inf, np.nan], lambda x: (x.log() * x).sum(), "none none none none"),
    "at an edge": ([1e-8, 2e-9], lambda x: x.log().sum(), "agree agree"),
    "fast": ([1e5, 1.0], lambda x: (x * 100).sin().sum(), "agree agree"),
    "wrong": ([1.0, 2.0], lambda x: doubled(x).sum(), "differ differ"),
}


def doubled(x):
    """Its gradient is wrong by a factor of two."""
    x.register_hook(lambda g: g * 2)
    return x * x


@pytest.mark.parametrize("quirk", QUIRKS)
def test_differences_are_told_from_rounding_kinks_and_infinities(quirk):
    values, f, expected = QUIRKS[quirk]
    x = mg.tensor(values, dtype=mg.float64, requires_grad=True)
    with np.errstate(all="ignore"):
        (leaf,) = [v for v in mg.graph.trace(f(x), {"x": x}).vertices if v.name == "x" and v.checks]
    found = {c.index: c.verdict for c in leaf.checks}
    assert " ".join(found[i,] for i in range(len(values))) == expected


def test_the_page_says_what_a_difference_comes_from(open_page):
    x, z = (mg.tensor(n, dtype=mg.float64, requires_grad=True) for n in ([0.0, 1e-3], [np.nan, 1.0]))
    graph = mg.graph.trace(x.relu().sum(), {"x": x})
    with np.errstate(all="ignore"):
        other = mg.graph.trace((z * z).sum(), {"z": z})
    page = open_page(graph)
    page.click(f"v{find(graph, 'x', 'input').index}")
    assert "a kink: any value between 0 and 1" in page.text("#panel .checks")
    assert "0 … 1" in page.text("#panel .checks")
    page = open_page(other)
    page.click("v0")
    assert page.texts("#panel .checks td")[2::3] == ["not finite: no comparison"] * 2


# ---------------------------------------------------------------- the quiz


def test_the_quiz_hides_a_result_until_it_is_typed(open_page):
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x * x * 5.0, {"x": x}))
    page.press("b", "q", "ArrowRight")
    assert "gradient 5" not in page.page.locator("#world").text_content()
    assert page.page.locator("#panel [data-result]").count() == 0
    page.page.locator("#answer-0").fill("4")
    page.press("Enter")
    assert "Not 4. Hint: 1 × 5 = ?" in page.text("#panel .reply")
    page.page.locator("#answer-0").fill("5.2")
    page.press("Enter")
    assert "Not 5.2" in page.text("#panel .reply")
    page.page.locator("#answer-0").fill("4,96")
    page.press("Enter")
    assert "Right: 5." in page.text("#announcer")
    assert "1 × 5 = 5" in page.text("#panel [data-result]")
    assert "gradient 5" in page.page.locator("#world").text_content()


def test_the_quiz_takes_numbers_as_people_write_them(open_page):
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x / -2.0, {"x": x}))
    page.press("b", "ArrowRight", "q")
    for typed, right in (("", False), ("half", False), ("nan", False), ("−0,5", True)):
        page.page.locator("#answer-0").fill(typed)
        page.press("Enter")
        assert (page.page.locator("#answer-0").count() == 0) is right
    page.press("ArrowLeft", "q", "q", "ArrowRight")
    assert page.page.locator("#answer-0").count() == 0  # what was known stays so


def test_the_quiz_shows_a_result_that_is_asked_for(open_page):
    page = open_page(network())
    page.press("b", "ArrowRight", "ArrowRight")
    page.page.locator("#quiz").check()
    assert page.page.locator("#panel .question").count() == 3
    page.page.locator("#panel .card[data-place='1'] button", has_text="Show").click()
    assert page.page.locator("#panel .question").count() == 2
    assert page.page.locator("#panel .card[data-place='1'] [data-result] td").count() > 8
    page.page.locator("#quiz").uncheck()
    assert page.page.locator("#panel .question").count() == 0


def test_the_quiz_wants_what_it_asks_for(open_page):
    """The gradient to an input that was broadcast is that after the sum; a number has no element."""
    x, y, s = (mg.tensor(n, requires_grad=True) for n in ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], 7.0))
    page = open_page(mg.graph.trace((x * y + s).sum(), {"x": x, "y": y, "s": s}))
    page.press("b", "q", "ArrowRight", "ArrowRight")
    card = "#panel .card[data-place='1']"
    assert "What is the gradient to y, summed over axes 0, 1?" in page.text(f"{card} label")
    page.page.locator("#answer-1").fill("1")
    page.press("Enter")
    assert "Hint: 1 × 1 + 1 × 1 + 1 × 1 + 1 × 1 = ?" in page.text(f"{card} .reply")
    page.page.locator("#answer-1").fill("4")
    page.press("Enter")
    assert "Right: 4." in page.text("#announcer")
    page.page.locator("#next-step").click()
    assert "What is element [0, 0] of the gradient to y, summed over axis 0?" in page.text(f"{card} label")
    for typed, right in (("1", False), ("4", True)):
        page.page.locator("#answer-1").fill(typed)
        page.press("Enter")
        assert (page.page.locator("#answer-1").count() == 0) is right


def test_the_quiz_asks_for_the_shape_of_a_large_array_and_says_why(open_page):
    x = mg.tensor(np.ones((20, 30)), requires_grad=True)
    empty = mg.tensor(np.zeros((0, 3)), requires_grad=True)
    graph = mg.graph.trace((x * x).sum() + (empty * 2.0).sum(), {"x": x})
    page = open_page(graph)
    page.press("b", "q")
    assert "comes with the next step" in page.text("#panel .quiz-note")
    page.click(f"v{next(v.index for v in graph.vertices if v.name == 'multiply' and v.value.size)}")
    assert "large arrays" in page.text("#panel .quiz-note")
    assert "What is the shape of the gradient to x?" in page.text("#panel .card[data-place='0'] label")
    for typed, right in (("30, 20", False), ("(20, 30)", True)):
        page.page.locator("#answer-0").fill(typed)
        page.press("Enter")
        assert (page.page.locator("#answer-0").count() == 0) is right
    assert "Right: (20, 30)." in page.text("#announcer")
    page.click(f"v{next(v.index for v in graph.vertices if v.name == 'multiply' and not v.value.size)}")
    assert "its gradients are empty" in page.text("#panel .quiz-note")
    page.press("End")
    assert "no question here" in page.text("#panel .quiz-note")


def test_the_quiz_is_played_by_keyboard(open_page):
    """The field waits for the answer; as long as it is empty, arrows lead on."""
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x * 2.0 * 5.0, {"x": x}))
    focus = lambda: page.page.evaluate("document.activeElement.id")
    page.press("b", "q", "ArrowRight")
    assert focus() == "answer-0"
    page.press("ArrowRight")
    assert page.text("#panel .progress") == "Step 2 of 3"
    assert focus() == "answer-0"
    page.press("ArrowLeft", "5", "ArrowLeft", "Enter")
    assert page.text("#panel .progress") == "Step 1 of 3"
    assert "Right: 5." in page.text("#announcer")
    page.press("Enter")
    assert focus() == "answer-0"
    page.press("Escape")
    assert page.page.locator("#panel .steps").count() == 0
    page.press("Escape")
    assert {"q", "Home End"} <= set(page.texts("#panel .keys kbd"))


def test_colours_do_not_tell_the_quiz_answers(open_page):
    graph = network()
    page = open_page(graph)
    page.page.locator("#colour").select_option("gradient")
    looks = """() => [...document.querySelectorAll('#world .box')].map(
        box => `${box.textContent} ${box.ariaLabel} ${box.querySelector('.body').getAttribute('fill')}`)"""
    whole = page.page.evaluate(looks)
    assert sum("gradient norm" in look for look in whole) > 3
    page.press("b", "q", "ArrowRight")
    hidden = page.page.evaluate(looks)
    assert [look for look in hidden if re.search(r"norm \d", look)] == [
        look for look in hidden if "cross_entropy" in look
    ]
    page.press("End", "q")
    assert page.page.evaluate(looks) == whole


# ---------------------------------------------------------------- for everybody


def test_axe_finds_nothing_wrong(open_page):
    page = open_page(network())
    assert page.violations() == []  # at the start
    page.click(f"g{next(g.index for g in network().groups if g.kind == 'Linear')}")
    assert page.violations("#panel") == []  # a folded part, and about it
    page.page.locator("#canvas .box").last.dispatch_event("click")
    assert page.violations("#panel") == []  # an operation
    page.press("b", "ArrowRight", "ArrowRight", "ArrowRight")
    page.page.locator("#cell-0-0").click()
    assert page.violations("#panel") == []  # a step, and how a cell is computed
    page.press("q")
    assert page.violations("#panel") == []  # the quiz
    page.press("End", "Escape", "/")
    page.page.keyboard.type("linear")
    page.press("Enter")
    assert page.violations("header") == []  # a search


def test_axe_finds_nothing_wrong_with_stacks(open_page):
    page = open_page(transformer())
    page.page.get_by_role("button", name="decoder").first.dispatch_event("click")
    assert page.violations() == []


@pytest.mark.parametrize(("wish", "smooth"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_by_itself_where_that_is_not_wanted(wish, smooth, open_page):
    page = open_page(expression(), reduced_motion=wish)
    page.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.press("0")  # after the page was fitted to its window
    classes = page.page.locator("#world").get_attribute("class") or ""
    assert ("smooth" in classes) is smooth


def test_on_paper_there_is_nothing_about_keys(open_page):
    page = open_page(expression())
    heading = page.page.get_by_role("heading", name="Keys")
    assert heading.is_visible()
    page.page.emulate_media(media="print")
    assert not heading.is_visible()


def test_unfolding_everything_keeps_in_view_what_was(open_page):
    """As large as it was, so that it can still be read."""
    page = open_page(transformer())
    seen = """() => [...document.querySelectorAll('#world [role=button]')].filter(box => {
        const [at, all] = [box, document.getElementById('canvas')].map(e => e.getBoundingClientRect());
        return at.right > all.left && at.left < all.right && at.bottom > all.top && at.top < all.bottom;
    }).map(box => box.id)"""
    scale = lambda: page.page.evaluate("new DOMMatrix(document.getElementById('world').style.transform).a")
    boxes, size = page.page.evaluate(seen), scale()
    page.page.get_by_role("button", name="Unfold everything").click()
    assert len(set(boxes) & set(page.page.evaluate(seen))) >= 3
    assert scale() == size


def test_large_counts_are_written_as_people_do():
    x = y = scalar(1.0)
    for _ in range(1000):
        y = y * 1.0001
    assert "<p>1,000 operations on 1 input.</p>" in mg.graph.trace(y, {"x": x}, check=False).to_html()


def test_is_saved_by_its_suffix(tmp_path):
    graph = expression()
    graph.save(tmp_path / "graph.html", color="gradient")
    text = (tmp_path / "graph.html").read_text(encoding="utf-8")
    assert text == graph.to_html("gradient")
    assert text.startswith("<!doctype html>")
