"""Why a word of the answer was written, one click away: the card's numbers are those of the engine."""

import numpy as np
import pytest

from minitransformer.explain import record
from tests.explain.test_page import exposed, number, page_of, transformer

LARGEST = """
() => {
  const { data, shape: [, words] } = page.record.arrays.logits;
  return Math.max(...data.slice(words, 2 * words));
}
"""
PATH = "decoder.layers.1.cross_attention"


def logits_of(page):
    return [number(text) for text in page.texts(".won tbody td:nth-child(2)")]


@pytest.fixture
def translator(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "you love the cat")), bypass_csp=True)
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.record.target]]")
    return page, record(model, source, target).arrays


def test_an_answer_opens_to_where_it_looked_and_how_it_won(translator):
    page, arrays = translator
    page.page.locator('[data-key="why-2-1"]').press("Enter")
    card = page.text(".answer-card")
    mean = arrays[f"{PATH}.weights"].mean(0)[1]
    shown = [number(text.rstrip(" %")) for text in page.texts(".looked b")]
    assert sorted(shown) == pytest.approx(sorted(100 * mean)[-3:], abs=0.6)
    best = int(mean.argmax())
    head = int(arrays[f"{PATH}.weights"][:, 1, best].argmax())
    assert f"Head {head + 1} looks most at" in card
    weights = arrays[f"{PATH}.weights"][head, 1]
    score = arrays[f"{PATH}.scores"][head, 1, best]
    assert number(card.partition("q · k / √d = ")[2].split(" ")[0]) == pytest.approx(score, rel=6e-3)
    assert f"softmax gives {weights[best]:.3f} against {np.delete(weights, best).max():.3f}" in card
    logits = np.sort(arrays["logits"][1])[::-1]
    assert logits_of(page) == pytest.approx(logits[:3], abs=6e-4)
    times = card.partition("to this power, ")[2].partition(" times")[0]
    assert number(times) == pytest.approx(np.exp(logits[0] - logits[1]), rel=6e-3)
    page.press("Escape")
    assert page.page.evaluate("document.activeElement.dataset.key") == "why-2-1"


def test_a_card_leads_to_the_stages_of_its_row_and_head_and_back(translator):
    page, arrays = translator
    mean = arrays[f"{PATH}.weights"].mean(0)[1]
    best = int(mean.argmax())
    head = int(arrays[f"{PATH}.weights"][:, 1, best].argmax())
    chosen = "() => [page.path, page.head, page.step, page.query ?? null, page.cell?.index ?? null]"
    page.page.evaluate("() => page.set({ step: 3, opened: 'why-2-1' })")
    for title, stage, expected in (
        ("Scores", "scores", [PATH, head, 1, 1, [head, 1, best]]),
        ("Alignment", "alignment", ["encoder.layers.0.self_attention", 0, 1, 1, None]),
        ("The next word", "probabilities", ["encoder.layers.0.self_attention", 0, 1, None, None]),
    ):
        page.page.locator(".answer-card").get_by_role("link", name=title, exact=True).click()
        page.page.locator(f"h2#{stage}").wait_for()
        assert page.page.evaluate(chosen) == expected
        page.page.go_back()
        page.page.locator(".answer-card").wait_for()
    assert page.page.evaluate("page.step") == 3


def test_an_answer_that_was_not_given_has_its_own_card_which_follows_the_text(translator):
    page, arrays = translator
    page.page.locator('[data-key="why-1-2"]').press("Enter")
    second = int(np.argsort(arrays["logits"][0])[-2])
    word = page.page.evaluate("i => shownToken(page.tokenOf(i))", second)
    assert page.text(".answer-card h3") == f"Why not “{word}”?"
    page.page.locator('[data-key="why-turn:1"]').click()
    assert page.text(".answer-card h3").startswith("Why “")
    page.page.evaluate("() => page.set({ text: 'the cat', target: null })")
    logits = page.page.evaluate(LARGEST)
    assert logits_of(page)[0] == pytest.approx(logits, abs=6e-4)
