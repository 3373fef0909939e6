"""The page of a graph, in a real browser: the file, where boxes stand, its keys, and who can read it."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.graph.folding import Fold
from minigrad.graph.labels import lines, number
from minigrad.graph.page import mathml, to_html
from minigrad.graph.placing import lay_out
from tests.graph.pages import expression, find, network, scalar, shown, transformer

# ---------------------------------------------------------------- the file


@pytest.mark.parametrize("make", [expression, network, transformer])
@pytest.mark.journey
def test_page_opens_without_errors_or_requests(make, open_page):
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
def test_page_shows_every_box_and_step_of_unusual_graphs(make, open_page):
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
        assert "No gradients: the output is not a scalar" in page.text("#panel")


def test_page_allows_only_its_own_script_and_style_sheet(open_page):
    """A page whose script was changed by one letter does not run it; no attribute is code or style."""
    text = expression().to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text.split("<script")[0])
    page = open_page(text.replace("const graph = readGraph", "const  graph = readGraph"))
    assert page.page.locator("#canvas").count() == 0
    assert "Content Security Policy" in page.complaints.pop(0)


def test_page_shows_the_picture_without_javascript(open_page):
    page = open_page(expression(), java_script_enabled=False)
    assert page.page.locator("#graph svg title").first.text_content().startswith("An expression")
    assert page.page.locator("#toolbar").is_hidden()


def test_page_says_when_numbers_are_omitted(open_page):
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


def test_names_are_escaped_in_the_page(open_page):
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
    found = {}

    def walk(frame, left, top):
        for row, places in zip(frame.rows, frame.places, strict=True):
            for (kind, index, _), (x, y, w, _) in zip(row, places, strict=True):
                if kind != "lane":
                    found[f"{kind[0]}{index}"] = [left + x, top + y, w]
                if kind == "group" and index in frame.frames:
                    walk(frame.frames[index], left + x, top + y)

    walk(lay_out(graph.folding), 0.0, 0.0)
    return found


def drawn(page):
    """The same, read from the page."""
    return page.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#world [role=button]")].map(box => {
            const [x, y] = box.getAttribute("transform").match(/-?\\d[-\\d.e]*/g).map(Number);
            return [box.id, [x, y, Number(box.querySelector(".body, .target").getAttribute("width"))]];
        }))"""
    )


def as_opened(page, graph):
    """The graph with those groups open that are open in the page."""
    opened = page.page.locator("#world .name").evaluate_all(
        "names => names.map(name => Number(name.id.slice(1)))"
    )
    return replace(graph, folded=Fold(frozenset({0, *opened})))


def assert_same_places(page, graph):
    expected = placed(graph)
    found = drawn(page)
    assert set(found) == set(expected)
    for box, place in expected.items():
        assert found[box] == pytest.approx(place, abs=1e-6), box


@pytest.mark.parametrize("make", [expression, network, transformer])
def test_boxes_have_the_positions_of_the_svg(make, open_page):
    graph = make()
    page = open_page(graph)
    assert_same_places(page, as_opened(page, graph))


INSIDE = """([inner, outer]) => {
    const [a, b] = [inner, outer].map(each => document.querySelector(each).getBoundingClientRect());
    return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
}"""


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


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
    opened = as_opened(page, graph)
    page.page.locator(f"#g{group.index}").focus()
    page.press("Enter")
    folded = Fold(opened.folded.opened - {group.index})
    assert_same_places(page, replace(graph, folded=folded))
    assert page.page.evaluate("document.activeElement.id") == f"g{group.index}"
    assert page.page.locator(f"#g{group.index}").get_attribute("aria-expanded") == "false"
    page.press(" ")
    assert_same_places(page, opened)
    assert "unfolded" in page.text("#announcer")


@pytest.mark.slow
def test_the_drawing_is_saved_as_it_looks(open_page, tmp_path):
    """As an SVG file with its colours in it, in dark mode too; text is still text."""
    page = open_page(expression(), color_scheme="dark")
    with page.page.expect_download() as download:
        page.page.get_by_role("button", name="Save the drawing").click()
    download.value.save_as(tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "value -4" in texts
    fills = {element.get("fill") for element in root.iter() if element.get("class") == "body"}
    assert all(fill.startswith(("rgb", "color(")) for fill in fills)
    assert len(fills) > 2
    assert not any(element.get("style") for element in root.iter())


def test_search_finds_names_and_code_in_folded_groups(open_page):
    page = open_page(transformer().fold(0))
    assert page.page.locator("#canvas .box").count() < 8
    page.press("/")
    page.page.keyboard.type("attention linear weight")
    page.page.keyboard.press("Enter")
    first = page.text("#panel h2")
    assert re.match(r"1 of \d+", page.text("#matches"))
    assert "attention" in page.text("#panel .breadcrumb")
    assert page.page.locator("#canvas .selected").is_visible()
    page.press("Enter")
    assert page.text("#matches").startswith("2 of")
    page.press("Shift+Enter")
    assert page.text("#panel h2") == first
    page.press("Escape")
    assert page.text("#matches") == ""
    page.press("/")
    page.page.keyboard.type("F.cross_entropy(")  # in the line of code
    page.press("Enter")
    assert "cross_entropy" in page.text("#panel pre")


def test_keys_move_and_zoom(open_page):
    page = open_page(expression())
    transform = lambda: page.page.evaluate("document.getElementById('world').style.transform")
    seen = [transform()]
    for key in ("+", "-", "Shift+ArrowLeft", "Shift+ArrowDown", "0"):
        page.press(key)
        assert transform() != seen[-1]
        seen.append(transform())


def test_colours_are_explained_by_a_legend_and_marks(open_page):
    x = mg.tensor([np.inf, 1.0], requires_grad=True)
    y = mg.tensor([1.0, 1.0], requires_grad=True)
    graph = mg.graph.trace((x * 1e-12).sum() + (y * 1e-12).sum(), {"x": x, "y": y})
    page = open_page(graph)
    assert "not finite (hatched)" in page.text("#legend")
    assert "NaN/∞" in page.page.locator(f"#v{find(graph, 'multiply').index}").text_content()
    for mode, word in (("gradient", "vanish"), ("bytes", "below 1 KiB"), ("flops", "below 1 k")):
        page.page.locator("#colour").select_option(mode)
        assert word in page.text("#legend")


def test_function_names_in_formulas_are_single_identifiers():
    assert "<mi>erf</mi>" in mathml(r"\mathrm{erf}(x)")


def test_infinities_from_a_mask_are_not_marked():
    x = mg.tensor(np.ones((1, 3, 2)), requires_grad=True)
    with mg.fused(False):
        masked = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    graph = mg.graph.trace((masked * masked).sum(), {"x": x}).expand()
    assert not find(graph, "filled").value.finite
    assert "not finite" not in graph.to_svg()
    assert "not finite" in mg.graph.trace((masked * np.inf).sum(), {"x": x}).expand().to_svg()


# ---------------------------------------------------------------- for everybody


@pytest.mark.slow
def test_the_theme_follows_the_system_or_the_reader(open_page):
    page = open_page(network(), color_scheme="dark")
    paper = lambda: page.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper() == "rgb(20, 25, 31)"
    page.page.get_by_role("button", name="Light").click()
    assert paper() == "rgb(255, 255, 255)"
    page.page.get_by_role("button", name="Dark").click()
    assert paper() == "rgb(20, 25, 31)"
    assert page.violations() == []


@pytest.mark.parametrize(("wish", "smooth"), [("reduce", False), ("no-preference", True)])
def test_reduced_motion_disables_animation(wish, smooth, open_page):
    page = open_page(expression(), reduced_motion=wish)
    page.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.press("0")  # after the page was fitted to its window
    classes = page.page.locator("#world").get_attribute("class") or ""
    assert ("smooth" in classes) is smooth


def test_the_printed_page_omits_keyboard_help(open_page):
    page = open_page(expression())
    heading = page.page.get_by_role("heading", name="Keys")
    assert heading.is_visible()
    page.page.emulate_media(media="print")
    assert not heading.is_visible()


# ---------------------------------------------------- panel, walk and quiz (more: tests/slow/graph)


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


def test_panel_compares_leaves_with_finite_differences(open_page):
    graph = expression()
    page = open_page(graph)
    leaf = find(graph, "a", "input")
    page.click(f"v{leaf.index}")
    backward, numeric = page.texts("#panel .checks td")[:2]
    assert backward == shown(leaf.gradient.numbers)[0]
    assert numeric == number(leaf.checks[0].numeric)
    assert "agree" in page.text("#panel .checks")


def test_the_quiz_hides_a_result_until_it_is_answered(open_page):
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x * x * 5.0, {"x": x}))
    page.press("b", "q")
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
            local = edge.jacobian.item()
            g = v.gradient.numbers.item()
            assert page.texts(f"{card} p.number")[0] == number(local + 0.0)
            factors = re.findall(
                r"[-\d.e+]+", page.text(f"{card} [data-result]").replace("(", "").replace(")", "")
            )
            assert [float(x) for x in factors if x != "="] == pytest.approx([g, local, g * local], rel=1e-5)
    page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")
    cells = page.texts("#panel .checks td")
    assert cells[0::3] == shown([expected["a"], expected["b"]])
    assert cells[1::3] == shown([expected["a"], expected["b"]])
    assert cells[2::3] == ["✓ agree"] * 2
    page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")


@pytest.mark.journey
def test_the_walk_sums_gradients_of_a_value_used_twice(open_page):
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
