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
    return [number(text) for text in page.texts(".won tbody td:nth-child(2)") if text]  # not of the others


@pytest.fixture
def translator(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "you love the cat")), bypass_csp=True)
    source, target = page.page.evaluate("() => [[...page.record.source], [...page.record.target]]")
    return page, record(model, source, target).arrays


def test_answer_cards_show_attention_and_runner_up(translator):
    page, arrays = translator
    page.page.locator('[data-key="why-2-1"]').press("Enter")
    card = page.text(".answer-card")
    mean = arrays[f"{PATH}.weights"].mean(0)[1]
    shown = [number(text.rstrip(" %")) for text in page.texts(".looked b")]
    assert sorted(shown) == pytest.approx(sorted(100 * mean)[-3:], abs=0.6)
    best = int(mean.argmax())
    head = int(arrays[f"{PATH}.weights"][:, 1, best].argmax())
    assert f"Head {head + 1} looks most at" in card
    bright = "words => words.filter(word => word.style.opacity === '1').map(word => word.dataset.word)"
    chain = page.page.locator("[data-word]").evaluate_all(bright)
    assert {*chain} == {f"encoder:{best}", "decoder:1"}  # all else is dimmed
    weights = arrays[f"{PATH}.weights"][head, 1]
    score = arrays[f"{PATH}.scores"][head, 1, best]
    assert number(card.partition("q · k / √d = ")[2].split(" ")[0]) == pytest.approx(score, rel=6e-3)
    assert f"softmax gives {weights[best]:.3f} against {np.delete(weights, best).max():.3f}" in card
    logits = np.sort(arrays["logits"][1])[::-1]
    assert logits_of(page) == pytest.approx(logits[:3], abs=6e-4)
    times = card.partition(" times as likely")[0].rpartition(" is ")[2]
    assert number(times) == pytest.approx(np.exp(logits[0] - logits[1]), rel=6e-3)
    picture, box = (page.page.locator(part).bounding_box() for part in (".over", ".answer-card"))
    assert picture["x"] + picture["width"] <= box["x"]  # it covers nothing
    page.press("Escape")
    assert page.page.evaluate("document.activeElement.dataset.key") == "why-2-1"


def test_answer_cards_link_to_their_stages_and_back(translator):
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


def test_the_answer_card_of_a_rival_follows_the_text(translator):
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


WRITTEN = """
() => {
  window.written = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
    window.written.push(text);
    return fillText.call(this, text, ...more);
  };
}
"""


def test_pointing_at_a_word_shows_its_weights(translator):
    page, arrays = translator
    page.page.evaluate(WRITTEN)
    page.page.locator('[data-word="encoder:1"]').dispatch_event("pointermove", {"bubbles": True})
    written = page.page.evaluate("window.written")
    path = "encoder.layers.0.self_attention"
    expected = [arrays[f"{path}.weights"].mean(0)[1]]
    expected += [arrays[f"decoder.layers.{i}.cross_attention.weights"].mean(0)[:, 1] for i in range(2)]
    largest = [100 * weights.max() for weights in expected]
    assert all(any(abs(number(text.rstrip(" %")) - x) < 0.6 for text in written) for x in largest)


def test_decoder_rows_are_labelled_as_reading_or_writing(translator):
    page, arrays = translator
    titles = lambda: {*page.page.locator(".column-labels i, .arcs-title").all_text_contents()}
    for path in ("decoder.layers.0.self_attention", PATH):
        page.page.evaluate("path => go(`softmax:${path}`)", path)
        assert titles() == {"after reading", "after reading:", "looks at"}
    page.page.evaluate("go('softmax:encoder.layers.0.self_attention')")
    assert titles() == set()
    page.page.evaluate("go('alignment')")
    assert titles() == {"when writing:", "looks at"}
    page.page.locator('[data-key="When writing:1"]').click()
    shown = [number(text.rstrip(" %")) for text in page.texts(".looked b")]
    mean = arrays[f"{PATH}.weights"].mean(0)[1]
    assert sorted(shown) == pytest.approx(sorted(100 * mean)[-3:], abs=0.6)
    queries = page.page.locator(".arc:not(.dim)").evaluate_all("arcs => arcs.map(arc => arc.dataset.query)")
    assert {*queries} == {"target:1"}
    read, written = page.page.evaluate("[page.tokensOf('target')[1], page.labelShown(1)]")
    assert f"The row that writes “{written}” is the one after reading “{read}”" in page.text("#screen")


def test_attention_cards_show_tokens_and_a_chosen_head(translator):
    page, _ = translator
    page.page.evaluate("() => page.set({ detail: true })")
    page.page.locator(f'[data-key="block:{PATH}"]').press("Enter")
    rows = page.page.locator(".card .row-labels").first.locator("span").all_text_contents()
    assert rows == page.page.evaluate("page.tokensOf('target')")
    page.page.locator('[data-key="card-head:1"]').click()
    assert page.page.evaluate("page.pictureHead") == 1
    assert page.text(".card .formula").startswith("head 2: ")
    page.page.locator(".card canvas").first.click(position={"x": 1, "y": 1})
    assert page.page.evaluate("[page.cell.name, ...page.cell.index]") == [f"{PATH}.q", 1, 0, 0]


def test_a_decoder_word_opens_the_card_of_the_next_word(translator):
    page, arrays = translator
    page.page.locator('[data-word="decoder:1"]').hover()
    best = page.page.evaluate("id => shownToken(page.wordOf(id))", int(arrays["logits"][1].argmax()))
    assert f"it writes “{best}”" in page.text(".panel .thought")
    page.page.locator('[data-word="decoder:1"]').click()
    assert page.text(".card h3") == f"Why “{best}”?"


def test_any_word_can_be_compared_with_the_answer(translator):
    page, arrays = translator
    page.page.evaluate("() => page.set({ step: 1, opened: 'why-2-1' })")
    least = int(arrays["logits"][1].argmin())
    word = page.page.evaluate("id => shownToken(page.wordOf(id))", least)
    page.page.locator(".card .word-field input").fill(word)
    assert page.text(".card h3") == f"Why not “{word}”?"
    assert arrays["logits"][1, least] == pytest.approx(logits_of(page)[3], abs=6e-4)
    p = np.exp(arrays["logits"][1] - arrays["logits"][1].max())
    p /= p.sum()
    shown = [*np.argsort(-p)[:3], least]
    rest = page.texts(".won tbody tr:last-child td")[-1]
    assert number(rest.removesuffix(" %")) == pytest.approx(100 * (1 - p[shown].sum()), abs=0.6)


@pytest.mark.slow
def test_the_space_key_opens_answers_and_blocks(translator):
    page, _ = translator
    page.page.locator('[data-key="why-2-1"]').press(" ")
    assert page.page.locator(".answer-card").count() == 1
    page.press("Escape")
    page.page.get_by_role("button", name="Softmax", exact=True).press(" ")
    assert page.page.locator(".card").count() == 1
