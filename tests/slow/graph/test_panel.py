"""The panel beside the drawing, in a real browser: numbers, formulas, finite differences, and the quiz."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.graph.page import MATHML, letters, mathml
from tests.graph.pages import expression, find, network, scalar, shown

# ---------------------------------------------------------------- the panel


def test_the_panel_shows_formulas_as_mathematics(open_page):
    graph = expression()
    page = open_page(graph)
    page.click(f"v{find(graph, 'c').index}")
    assert page.page.locator("#panel .equation").count() == 2
    assert page.page.locator("#panel math msup, #panel math mi").count() > 3
    assert "c = a * b" in page.text("#panel pre")
    assert "pages.py:" in page.text("#panel figcaption")


def test_every_formula_of_the_library_is_mathematics():
    from tools.reference import formulas

    for _, latex in formulas():
        shown = mathml(latex)
        assert "mtext>\\" not in shown, latex
        assert {e.tag.split("}")[0] for e in ElementTree.fromstring(shown).iter()} == {MATHML[:-1]}
        assert "mover" not in shown or "class" in shown or "hat" in latex or "tilde" in latex, latex


def test_invalid_formulas_are_shown_as_escaped_text():
    assert mathml(r"\text{<img onerror=x>}").endswith(r"<mtext>\text{&lt;img onerror=x&gt;}</mtext></math>")


def test_numbers_have_three_digits_as_in_python(open_page):
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


def test_wide_tables_shrink_and_then_scroll(open_page):
    five, forty = (mg.tensor(np.pi * np.ones((2, n)), requires_grad=True) for n in (5, 40))
    page = open_page(mg.graph.trace(five.sum() + forty.sum(), {"five": five, "forty": forty}))
    state = """() => [...document.querySelectorAll("#panel .tables")].slice(0, 1).map(table =>
        [table.scrollWidth > table.clientWidth + 1, table.classList.contains("wide"),
            getComputedStyle(table).backgroundImage.includes("gradient")])[0]"""  # its shadows
    page.page.set_viewport_size({"width": 1200, "height": 900})
    for index, expected in (("v0", [False] * 3), ("v1", [True] * 3)):
        page.click(index)
        assert page.page.evaluate(state) == expected
        assert (
            float(page.page.evaluate("getComputedStyle(document.querySelector('#panel td')).fontSize")[:-2])
            >= 11
        )


def test_the_panel_lists_the_contents_of_a_group(open_page):
    graph = network()
    page = open_page(graph)
    group = next(g for g in graph.groups if g.kind == "Linear")
    page.click(f"g{group.index}")
    assert "16 numbers in 2 tensors" in page.text("#panel")
    assert "linear" in page.text("#panel .hint")


def test_formulas_show_the_values_of_their_symbols(open_page):
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
def test_gradient_differences_are_classified(quirk):
    values, f, expected = QUIRKS[quirk]
    x = mg.tensor(values, dtype=mg.float64, requires_grad=True)
    with np.errstate(all="ignore"):
        (leaf,) = [v for v in mg.graph.trace(f(x), {"x": x}).vertices if v.name == "x" and v.checks]
    found = {c.index: c.verdict for c in leaf.checks}
    assert " ".join(found[i,] for i in range(len(values))) == expected


def test_the_panel_explains_gradient_differences(open_page):
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


def test_the_quiz_asks_in_which_direction_a_logit_moves(open_page):
    """As the step of gradient descent does move it; a wrong choice gets a hint."""
    logits = mg.tensor([[2.0, 0.5, 1.0]], requires_grad=True)
    loss = F.cross_entropy(logits, mg.tensor(np.array([1])))
    graph = mg.graph.trace(loss, {"logits": logits})
    loss.backward()
    gradient = logits.grad.array[0]
    largest = int(np.abs(gradient).argmax())
    page = open_page(graph)
    page.press("b", "q")  # goes to the first step that has a question
    idea = page.page.locator("#panel .question").first
    assert f"Which way will this logit, logits [0, {largest}], move" in idea.inner_text()
    right = "up" if gradient[largest] < 0 else "down"
    wrong = "down" if right == "up" else "up"
    idea.get_by_role("button", name=wrong).click()
    assert idea.locator(".reply").inner_text().startswith("No. A gradient is the slope")
    idea.get_by_role("button", name=right).click()
    assert idea.locator(".reply").inner_text().startswith("Right. Its gradient is negative")
    assert page.page.locator("#panel [data-result]").count() == 0  # the numbers stay hidden
    assert page.violations("#panel") == []


def test_the_quiz_asks_for_reasons(open_page):
    x, bias = (mg.tensor(n, requires_grad=True) for n in ([[1.0, -2.0], [3.0, 4.0]], [5.0, 6.0]))
    y = x.relu() + bias
    page = open_page(mg.graph.trace((y * y).sum(), {"x": x, "bias": bias}))
    page.press("b", "q", "ArrowRight")
    assert "is used 2 times. What becomes of its 2 gradients?" in page.text("#panel")
    page.press("ArrowRight")
    assert "Why is the gradient to y a sum over axis 0?" in page.text("#panel")
    page.press("ArrowRight")
    assert "Element [0, 1] of the input is negative." in page.text("#panel")
    page.page.get_by_role("button", name="nothing").click()
    assert "Right. There relu is flat" in page.text("#panel")


# ---------------------------------------------------------------- folded parts


def test_the_gradient_of_a_folded_softmax_is_its_closed_form(open_page):
    """What its steps send back adds up to what the engine's own softmax does, to the digit."""
    x = mg.tensor([[1.0, 2.0, 0.5]], requires_grad=True)
    weight = mg.tensor([[0.3, -1.0, 2.0]])
    with mg.fused(False):
        graph = mg.graph.trace((F.softmax(x, -1) * weight).sum(), {"x": x})
    (F.softmax(x, -1) * weight).sum().backward()
    part = next(g for g in graph.groups if g.name == "softmax")
    page = open_page(graph.fold(0))
    page.click(f"g{part.index}")
    page.page.locator("#panel").get_by_role("button", name="Fold").click()
    assert page.page.locator("#panel .formulas .equation").count() == 1
    inside = page.page.locator("#panel .passing")
    tables = inside.first.locator("table")
    assert "x float32[1, 3]" in inside.first.inner_text()
    cells = lambda i: tables.nth(i).locator("td:not(:empty)").all_inner_texts()
    assert cells(0) == shown(x.array)
    assert cells(1) == shown(x.grad.array)
    out = inside.last.locator("table").first.locator("td:not(:empty)").all_inner_texts()
    assert out == shown(F.softmax(x, -1).array)


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_formulas_are_not_clipped(width, open_page):
    """Not attention's, and not an LSTM's, which break into lines."""
    q = mg.tensor(np.eye(3)[None, None], requires_grad=True)
    attention = mg.graph.trace(F.scaled_dot_product_attention(q, q, q).sum(), {"q": q})
    mg.manual_seed(0)
    model = mg.nn.LSTM(2, 2)
    recurrent = mg.graph.trace(model(mg.randn(2, 1, 2))[0].sum(), model).expand()
    for graph in (attention, recurrent):
        page = open_page(graph, viewport={"width": width, "height": 900})
        page.click(
            f"v{max((v for v in graph.vertices), key=lambda v: sum(len(f) for _, f in v.formulas)).index}"
        )
        assert page.page.locator("#panel .equation").count() >= 3
        assert page.page.evaluate(CUT) == 0


CUT = """() => {
    const { right } = document.getElementById("panel").getBoundingClientRect();
    const parts = [...document.querySelectorAll("#panel .equation *")];
    return parts.filter(part => part.getBoundingClientRect().right > right).length;
}"""


# ---------------------------------------------------------------- digits and signs


def test_numbers_are_coloured_and_show_all_digits(open_page):
    x = mg.tensor([1 / 3, -2 / 3, 0.0], requires_grad=True)
    page = open_page(mg.graph.trace((x * x).sum(), {"x": x}))
    page.click("v0")
    cells = page.page.locator("#panel td")
    assert cells.all_inner_texts()[:3] == ["0.333", "-0.667", "0"]
    assert [cells.nth(i).get_attribute("class") for i in range(3)] == ["p2", "n4", None]
    page.page.locator("#panel td button").first.focus()
    page.press("Enter")
    assert np.float32(cells.first.inner_text()) == x.array[0]
    page.press("ArrowRight", " ")
    assert np.float32(cells.nth(1).inner_text()) == x.array[1]
    page.press(" ")
    assert cells.nth(1).inner_text() == "-0.667"


def test_boxes_have_heat_maps_of_their_values(open_page):
    x = mg.tensor([[4.0, -4.0, 0.0], [1.0, -2.0, np.nan]], requires_grad=True)
    graph = mg.graph.trace((x * 1.0).sum(), {"x": x})
    page = open_page(graph)
    heat = page.page.locator("#v0 .value path")
    cells = heat.evaluate_all(
        "paths => Object.fromEntries(paths.map(path => [path.getAttribute('class'), path.getAttribute('d')]))"
    )
    assert set(cells) == {"p4", "n4", "p1", "n2", "broken"}
    assert cells["p4"].startswith("M0.00 0.00")
    assert cells["n4"].startswith("M8.67 0.00")
    assert page.page.locator(f"#v{find(graph, 'sum').index} .heat").count() == 0  # one number is text


def test_the_quiz_accepts_common_number_formats(open_page):
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x / -2.0, {"x": x}))
    page.press("b", "ArrowRight", "q")
    for typed, right in (("", False), ("half", False), ("nan", False), ("−0,5", True)):
        page.page.locator("#answer-0").fill(typed)
        page.press("Enter")
        assert (page.page.locator("#answer-0").count() == 0) is right
    page.press("ArrowLeft", "q", "q", "ArrowRight")
    assert page.page.locator("#answer-0").count() == 0  # what was known stays so


def test_the_quiz_shows_a_result_on_request(open_page):
    page = open_page(network())
    page.press("b", "ArrowRight", "ArrowRight")
    page.page.locator("#quiz").check()
    assert page.page.locator("#panel .question input").count() == 3
    page.page.locator("#panel .card[data-place='1'] button", has_text="Show").click()
    assert page.page.locator("#panel .question input").count() == 2
    assert page.page.locator("#panel .card[data-place='1'] [data-result] td").count() > 8
    page.page.locator("#quiz").uncheck()
    assert page.page.locator("#panel .question").count() == 0


def test_the_quiz_accepts_the_answer_it_asks_for(open_page):
    """The gradient to an input that was broadcast is that after the sum; a number has no element."""
    x, y, s = (mg.tensor(n, requires_grad=True) for n in ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], 7.0))
    page = open_page(mg.graph.trace((x * y + s).sum(), {"x": x, "y": y, "s": s}))
    page.press("b", "q", "ArrowRight")
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


def test_the_quiz_asks_for_a_large_arrays_shape(open_page):
    x = mg.tensor(np.ones((20, 30)), requires_grad=True)
    empty = mg.tensor(np.zeros((0, 3)), requires_grad=True)
    graph = mg.graph.trace((x * x).sum() + (empty * 2.0).sum(), {"x": x})
    page = open_page(graph)
    page.press("b")
    page.click(f"v{next(v.index for v in graph.vertices if v.name == 'multiply' and v.value.size)}")
    page.press("q")
    assert "large arrays" in page.text("#panel .card[data-place='0'] .hint")
    assert "What is the shape of the gradient to x?" in page.text("#panel .card[data-place='0'] label")
    for typed, right in (("30, 20", False), ("(20, 30)", True)):
        page.page.locator("#answer-0").fill(typed)
        page.press("Enter")
        assert (page.page.locator("#answer-0").count() == 0) is right
    assert "Right: (20, 30)." in page.text("#announcer")
    page.click(f"v{next(v.index for v in graph.vertices if v.name == 'multiply' and not v.value.size)}")
    assert page.page.locator("#panel .question").count() == 0  # its gradients are empty
    page.press("End", "q", "q")
    assert page.page.locator("#panel .question input").count() > 0  # it goes to a step that has one


def test_the_quiz_works_by_keyboard(open_page):
    """The field waits for the answer; as long as it is empty, arrows lead on."""
    x = scalar(3.0)
    page = open_page(mg.graph.trace(x * 2.0 * 5.0, {"x": x}))
    focus = lambda: page.page.evaluate("document.activeElement.id")
    page.press("b", "q")
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


def test_colours_do_not_reveal_quiz_answers(open_page):
    graph = network()
    page = open_page(graph)
    page.page.locator("#colour").select_option("gradient")
    looks = """() => [...document.querySelectorAll('#world .box')].map(
        box => `${box.textContent} ${box.ariaLabel} ${box.querySelector('.body').getAttribute('fill')}`)"""
    whole = page.page.evaluate(looks)
    assert sum("gradient norm" in look for look in whole) > 3
    page.press("b", "q")
    hidden = page.page.evaluate(looks)
    assert [look for look in hidden if re.search(r"norm \d", look)] == [
        look for look in hidden if "cross_entropy" in look
    ]
    page.press("End", "q")
    assert page.page.evaluate(looks) == whole


# ---------------------------------------------------------------- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_no_accessibility_violations(scheme, open_page):
    page = open_page(network(), color_scheme=scheme)
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
