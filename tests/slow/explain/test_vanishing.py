"""Where the gradient is small, and what Play says meanwhile."""

import numpy as np
import pytest

from minitransformer.explain import record
from tests.explain.test_page import number, page_of, transformer, words
from tests.explain.test_stage import MOMENT


def test_backward_names_the_smallest_gradient(open_page):
    model, tokenizer = transformer(), words()
    page = open_page(page_of(model, "you love the cat", target="the mat"), "#backward")
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("you love the cat"), tokenizer.end_id]
    found = record(model, source, [tokenizer.start_id, *labels[:-1]])
    gradients = found.backward(labels).activations
    bars = page.page.locator(".tag .length")
    names = bars.evaluate_all("bars => bars.map(bar => bar.dataset.length)")
    said = page.page.locator(".tag:has(.length) title").all_text_contents()
    lengths = {name: np.linalg.norm(gradients[name]) for name in names}
    for name, text in zip(names, said, strict=True):
        assert number(text.rsplit(" ", 1)[1]) == pytest.approx(lengths[name], rel=1e-3)
    text = page.text(".vanishing")
    assert number(text.split("length ")[1].split(",")[0]) == pytest.approx(min(lengths.values()), rel=1e-3)
    scores = [
        np.linalg.norm(head) for name, of in gradients.items() if name.endswith(".scores") for head in of
    ]
    assert number(text.split("head ")[1].split(": ")[1].split(",")[0].rstrip(".")) == pytest.approx(
        min(scores), rel=1e-3
    )
    page.page.locator(".vanishing a").click()
    assert page.page.locator("h2#softmax").count() == 1
    assert page.page.locator(".cells-box.gradient").count()


def test_stepping_back_from_the_end_shows_the_step_before(open_page):
    page = open_page(page_of(transformer()), "#backward", reduced_motion="reduce")
    page.page.evaluate(MOMENT, 1000)
    page.page.evaluate("() => document.getElementById('timeline').dispatchEvent(new Event('change'))")
    count = int(page.text(".panel .thought").split(" of ")[1].split(":")[0])
    assert page.text(".panel .thought").startswith(f"{count} of")
    page.page.locator('[data-key="walk-back"]').click()
    assert page.text(".panel .thought").startswith(f"{count - 1} of")


def test_play_shows_words_as_they_are_written(open_page):
    page = open_page(page_of(transformer(), target="the mat"))
    said = []
    for moment in (0, 260, 520, 800, 1000):
        page.page.evaluate(MOMENT, moment)
        said.append(page.text(".panel .thought"))
    assert said[0].startswith("The encoder reads")
    assert "START" in said[1]
    assert said[2].startswith("The loss")
    assert said[3].startswith("The gradient flows back: ")
    assert said[4].startswith("The gradient has reached")
    opacity = "name => Number(document.querySelector(name).style.opacity)"
    page.page.evaluate(MOMENT, 0)
    assert page.page.evaluate(opacity, ".answers .answer") == 0
    assert page.page.evaluate(opacity, '[data-word="decoder:1"]') == 0
    page.page.evaluate(MOMENT, 500)
    assert page.page.evaluate(opacity, ".answers .answer") == 1
    assert page.page.evaluate(opacity, '[data-word="decoder:1"]') == 1


def test_the_overview_names_the_smallest_gradient(open_page):
    page = open_page(page_of(transformer(), target="the mat"))
    assert page.page.locator(".panel .vanishing").count() == 0
    page.press("g")
    said = page.text(".panel .vanishing")
    page.page.evaluate("() => { location.hash = '#backward'; }")
    page.page.locator("h2#backward").wait_for(state="attached")
    assert said == page.text(".panel .vanishing")
