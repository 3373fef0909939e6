"""The pages of recurrent language models: usable by everybody, and fast enough for a long text."""

import numpy as np
import pytest

from minitransformer.explain import record
from tests.explain.test_page import STAGE, TABLES, addresses, all_agree, exposed, page_of, recurrent
from tests.slow.explain.test_page import LARGEST, VIOLATIONS

LONG = "you love the cat on the mat " * 28
TIMES = """
text => {
  const seconds = f => {
    const start = performance.now();
    f();
    return (performance.now() - start) / 1000;
  };
  const all = [1, 2, 3].map(i => seconds(() => page.set({ text: text.slice(0, text.length - 4 * i) })));
  const timeline = document.getElementById("timeline");
  const frames = [200, 400, 700, 900].map(value => seconds(() => {
    timeline.value = value;
    timeline.dispatchEvent(new Event("input", { bubbles: true }));
  }));
  return { keystroke: Math.min(...all), frame: Math.min(...frames) };
}
"""


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_phone(kind, scheme, open_page):
    page = open_page(page_of(recurrent(kind), "you love the cat", 30), color_scheme=scheme)
    page.press("g")
    page.page.set_viewport_size({"width": 390, "height": 844})
    assert {width for _, _, width in page.page.evaluate(LARGEST)} == {390}
    rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    own = [link for link in addresses(page) if link in ("#gates", "#memory", "#through-time", "#layers")]
    page.page.evaluate(f"() => {{ ({STAGE})('#gates'); }}")
    assert page.violations(**rules) == []  # on the whole page
    assert page.page.evaluate(VIOLATIONS, [own, rules]) == []


def test_step_tables_open_and_show_all_numbers(open_page):
    page = open_page(page_of(recurrent(), "you love the cat", 30), "#gates")
    cells = page.page.locator("#screen td button")
    assert cells.count() == 0
    page.page.locator('[data-key="numbers"]').click()
    assert cells.count() > 100
    page.page.locator('[data-key="Step:1"]').click()  # they stay open
    assert cells.count() > 100
    page.press("q")  # asks for one of them, or for the number of a square
    assert page.page.locator("td.asked").count() == 1


def test_links_restore_the_layer_and_memory_switch(open_page):
    page = open_page(page_of(recurrent(), "you love the cat", 30), "#memory?layers=2&off=memory")
    assert page.page.locator('#screen [data-key="choice:Layer"]').input_value() == "1"
    assert "Memory is switched off" in page.text("#screen .hint")
    page.page.evaluate(f"() => {{ ({STAGE})('#gates:layers.0'); }}")
    assert page.page.locator('#screen [data-key="choice:Layer"]').input_value() == "0"


@pytest.mark.parametrize(("length", "most"), [(63, 0.2), (196, 1.0)])
def test_recurrent_pages_update_fast_on_each_keystroke(length, most, open_page):
    text = " ".join(LONG.split()[:length])
    model = recurrent(embedding_dim=224, hidden_size=224)
    page = open_page(exposed(page_of(model, text, None)), bypass_csp=True)
    times = page.page.evaluate(TIMES, text)
    print(length, {name: f"{1000 * time:.0f} ms" for name, time in times.items()})
    assert times["keystroke"] < 3 * most
    assert times["frame"] < 3 * 0.033


def test_gradients_of_a_large_model_are_computed_one_by_one(open_page):
    model = recurrent("lstm", embedding_dim=224, hidden_size=224)
    page = open_page(exposed(page_of(model, "you love the cat on the mat " * 2, 100)), bypass_csp=True)
    (first,) = page.page.evaluate(TABLES, "#pull")
    missing = [row[1:] for row in first if "…" in row]
    assert 0 < len(missing) < len(first)
    assert {text for row in missing for text in row} == {"…"}
    for _ in range(400):  # wait_for_function polls by eval, which the page's policy forbids
        page.page.wait_for_timeout(50)
        (table,) = page.page.evaluate(TABLES, "#pull")
        if not any("…" in row for row in table):
            break
    e = page.page.evaluate("() => ({ source: [...page.record.source], labels: page.labels() })")
    expected = record(model, e["source"])
    alone = [expected.backward(e["labels"], positions=[t]).activations for t in range(len(table))]
    all_agree(
        [row[1:] for row in table], [np.linalg.norm(each["layers.input"], axis=-1)[:32] for each in alone]
    )
