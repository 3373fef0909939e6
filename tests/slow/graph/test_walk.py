"""The walk through backward on the page of a graph, in a real browser."""

import math
import re

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.autograd import checkpoint
from minigrad.graph.labels import number
from minigrad.graph.modules import join_modules
from minigrad.graph.page import ASSETS, _Data, to_html
from tests.graph.pages import expression, find, network, scalar, shown, transformer

# ---------------------------------------------------------------- the walk

WALK = "texts => {" + join_modules(ASSETS / "walk.js")  # its functions, to be called on `texts`


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


def test_the_url_follows_the_walk(open_page):
    """So that what is copied or reloaded is what is seen."""
    page = open_page(expression(), fragment="#step=3")
    address = lambda: page.page.evaluate("location.hash")
    page.press("ArrowRight")
    assert address() == "#step=4"
    page.page.locator("#previous-step").click()
    page.press("Home")
    assert address() == "#step=0"
    page.press("Escape")
    assert address() == ""


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


def test_the_walk_adds_the_initial_gradient_of_a_used_output(open_page):
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


def test_a_cell_of_a_matrix_product_shows_its_row_and_column(open_page):
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
            [float(number(a, 6)), float(number(b, 6))] for a, b in zip(left[i], right[:, j], strict=True)
        ]
        assert float(total) == pytest.approx(
            float((left.astype(float) @ right.astype(float))[i, j]), rel=2e-5
        )
        assert total == shown(vertex.inputs[place].pulled.numbers[i, j], 6)[0]
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
            assert total == shown(edge.pulled.numbers.reshape(-1)[flat], 6)[0]


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
        WALK
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


def test_batched_products_name_the_summed_axes(open_page):
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
def test_the_walk_works_when_numbers_are_omitted(make, open_page):
    graph = make()
    page = open_page(to_html(graph.expand().folding, limit=0))
    page.press("b")
    for _ in graph.vertices:
        page.press("ArrowRight")
    assert "End of the walk" in page.text("#panel h2")
    page.press("q", "Home", *["ArrowRight"] * 4)
    page.page.locator("#colour").select_option("gradient")
    assert not re.search(r"undefined|null|NaN|\[object", page.text("body"))


def test_the_walk_unfolds_the_groups_around_a_step(open_page):
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


def test_hooks_are_shown_only_where_they_change_a_gradient(open_page):
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


def test_the_walk_begins_with_the_initial_gradients(open_page):
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
    found = page.evaluate(WALK + "return texts.map(roundHalf)}", numbers)
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


def test_elementwise_ops_with_nan_are_still_elementwise():
    """0 times what is not finite is NaN, but no element depends on another."""
    z = mg.tensor([0.0, 1.0, np.inf, np.nan], requires_grad=True)
    with np.errstate(all="ignore"):
        graph = mg.graph.trace((z.log() * z).sum(), {"z": z})
    edges = [e for v in graph.vertices if v.name in ("log", "multiply") for e in v.inputs]
    assert all(e.elementwise for e in edges)
    assert np.isposinf(edges[0].jacobian[0, 0])
