"""Questions of understanding, whose answers the model computes; and words that it does not know."""

import numpy as np
import pytest

from minitransformer.explain import Switches, record
from tests.explain.test_page import STAGE, exposed, number, page_of, transformer, vit

PATH = "encoder.layers.0.self_attention"
QUESTION = "() => { const { text, choices, right, why } = page.quiz; return [text, choices, right, why]; }"

TOP = "() => document.querySelector('h2').getBoundingClientRect().top + scrollY"


def asked(page, stage):
    page.page.evaluate(f"link => {{ ({STAGE})(link); }}", stage)
    page.page.evaluate("() => { page.turn = 0; }")
    page.page.locator('[data-key="quiz"]').click()
    return page.page.evaluate(QUESTION)


def inputs(page):
    source = page.page.evaluate("() => [...page.record.source]")
    return source, page.page.evaluate("() => [...page.record.target]")


def test_quiz_questions_about_parts_have_computed_answers(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "you love the cat")), bypass_csp=True)
    source, target = inputs(page)
    before = record(model, source, target).arrays
    weights = f"{PATH}.weights"

    _, options, right, why = asked(page, f"#softmax:{PATH}")
    after = record(model, source, target, Switches(positions=False)).arrays
    gain = (after[weights] - before[weights])[0, 0]
    tokens = page.page.evaluate("() => page.tokensOf('source')")
    assert tokens[gain.argmax()] == options[right]
    assert f"{before[weights][0, 0, gain.argmax()]:.3f} → {after[weights][0, 0, gain.argmax()]:.3f}" in why

    _, options, right, why = asked(page, f"#scale:{PATH}")
    after = record(model, source, target, Switches(scale=False)).arrays
    was, now = before[weights][0, 0].max(), after[weights][0, 0].max()
    assert options[right] == ("larger" if now > was else "smaller")
    assert f"from {was:.3f} to {now:.3f}" in why

    _, options, right, _ = asked(page, f"#heads:{PATH}")
    label = page.page.evaluate("() => page.labels()[0]")
    left = [
        record(model, source, target, Switches(ablated={PATH: [i]})).arrays["probabilities"][0, label]
        for i in range(2)
    ]
    assert options[right] == f"head {1 + int(np.argmin(left))}"


def test_the_quiz_predicts_the_effect_of_a_weight_step(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you", target="the mat")), bypass_csp=True)
    page.page.evaluate("() => page.set({ step: 0 })")
    source, target = inputs(page)
    labels = page.page.evaluate("() => page.labels()")
    found = record(model, source, target)
    gradients = found.backward(labels).weights
    length = np.sqrt(sum((g.astype(float) ** 2).sum() for g in gradients.values()))
    parameters = dict(model.named_parameters())
    for name, g in gradients.items():
        parameters[name].array[...] -= 0.05 * g / length
    after = record(model, source, target).arrays["logits"][0]
    before = found.arrays["logits"][0]
    for turn in (0, 2, 4):  # a number is asked for in between
        page.page.evaluate("turn => { page.turn = turn; page.set({ quiz: null, screen: 'logits' }); }", turn)
        page.page.locator('[data-key="quiz"]').click()
        text, options, right, why = page.page.evaluate(QUESTION)
        word = text.rpartition("logit of “")[2].partition("”")[0]
        v = page.page.evaluate(
            "word => page.data.tokenizer.tokens.findIndex(t => shownToken(t) === word)", word
        )
        assert options[right] == ("up" if after[v] > before[v] else "down")
        was, now = (
            number(part) for part in why.removeprefix("It goes from ").partition(";")[0].split(" to ")
        )
        assert (was, now) == pytest.approx((before[v], after[v]), abs=1e-4)


def test_quiz_answers_are_judged_and_close_with_the_stage(open_page):
    page = open_page(exposed(vit()), bypass_csp=True)
    _, options, right, why = asked(page, "#looks")
    wrong = 1 - right
    page.page.locator(f'[data-key="option:{wrong}"]').click()
    assert page.text(".question .reply") == f"No. It is {options[right]}. {why}"
    page.page.locator(f'[data-key="option:{right}"]').click()
    assert page.text(".question .reply") == f"Right. {why}"
    page.page.evaluate(f"() => {{ ({STAGE})('#softmax'); }}")
    assert page.page.locator(".question").count() == 0


def test_the_quiz_falls_back_to_asking_for_a_number(open_page):
    page = open_page(page_of(transformer(), "I love you"), "#scale?off=positions,scale")
    page.press("q")
    assert page.text("#inspector .value") == "?"
    assert page.page.evaluate("document.activeElement.id") == "answer"


def test_unknown_words_are_marked_on_every_stage(open_page):
    page = open_page(page_of(transformer(), "I love you", 9), "#tokens")
    assert page.page.locator(".unknown").count() == 0
    page.page.fill("#sentence", "I zebra the yak")
    assert page.text("#toolbar .unknown") == "The model does not know “zebra”, “yak”: it reads <UNK> instead."
    shown = ["I", "<UNK> “zebra”", "the", "<UNK> “yak”", "<END>"]
    assert [row.replace("␣", "") for row in page.texts("#screen td.word")] == shown
    page.page.evaluate(f"() => {{ ({STAGE})('#softmax'); }}")
    labels = page.texts("#screen table.numbers >> nth=0 >> tbody th")
    assert [label.replace("␣", "") for label in labels] == shown
    page.page.evaluate(f"() => {{ ({STAGE})('#loss'); }}")
    page.page.locator('[data-key="target"]').fill("the quagga")
    page.page.locator('[data-key="target-go"]').click()
    assert "<UNK> “quagga”" in page.texts("#screen .steps td.word")
    assert "“quagga”" in page.text("#toolbar .unknown")
