"""What if: losses without each part alone are the engine's, for every family that has heads."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import BERT, GPT, BERTConfig, GPTConfig, generate
from minitransformer.explain import Switches, record
from minitransformer.explain.page import to_html
from minitransformer.text.tokenizer_presets import BERT_TOKENS
from tests.explain.test_page import exposed, number, page_of, scaled, sizes, transformer, vit_model, words

DONE = '.parts [role="status"]:has-text("Framed")'
CELLS = """
() => [...document.querySelectorAll(".parts tbody td button")].map(button => {
  const [, ...rest] = button.dataset.key.split(":");
  return [...rest, button.getAttribute("aria-label"), button.closest("td").className];
})
"""


def of_transformer():
    tokenizer = words()
    model = transformer()
    source = [*tokenizer.encode("I love you"), tokenizer.end_id]
    (answer,) = generate(model, [source], 6)
    stopped = len(answer) < 6
    labels = [*answer, tokenizer.end_id] if stopped else answer
    return page_of(model, "I love you"), model, source, [tokenizer.start_id, *labels[:-1]], labels, None


def of_gpt():
    mg.manual_seed(0)
    model = scaled(GPT(GPTConfig(**sizes(n_positions=32, n_embd=12, n_layer=2, n_head=3))))
    ids = words().encode("I love you")
    (answer,) = generate(model, [ids], 8)
    source = [*ids, *answer[:-1]]
    return page_of(model, "I love you"), model, source, None, [*ids[1:], *answer], None


def of_bert():
    mg.manual_seed(0)
    tokenizer = words(added=BERT_TOKENS)
    small = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 14}
    model = scaled(BERT(BERTConfig(vocab_size=tokenizer.vocab_size, head="masked_lm", **small)))
    cls, mask, sep = map(tokenizer.special_id, ("[CLS]", "[MASK]", "[SEP]"))
    inputs = {"before": [cls], "after": [sep], "marks": ["[MASK]"], "strip": True}
    page = page_of(model, "zebra [MASK] zebra", tokenizer=tokenizer, inputs=inputs)
    source = [cls, tokenizer.unk_id, mask, tokenizer.unk_id, sep]
    labels = record(model, source).arrays["logits"].argmax(-1).tolist()
    return page, model, source, None, labels, [2]


def of_vit():
    model, image = vit_model()
    page = to_html(model, None, "a digit", title="a digit", labels=["0", "1", "2"], image=image)
    source = image.reshape(-1).tolist()
    labels = record(model, source).arrays["logits"].argmax(-1).tolist()
    return page, model, source, None, labels, None


FAMILIES = {"transformer": of_transformer, "gpt": of_gpt, "bert": of_bert, "vit": of_vit}


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_without_each_head_match_the_engine(family, open_page):
    text, model, source, target, labels, positions = FAMILIES[family]()
    page = open_page(exposed(text), "#loss", bypass_csp=True)
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator(DONE).wait_for()
    assert page.page.evaluate("() => [...page.labels()]") == labels

    def loss(**off):
        return record(model, source, target, Switches(**off)).backward(labels, positions).loss

    whole = loss()
    cells = page.page.evaluate(CELLS)
    assert len(cells) == {"transformer": 10, "gpt": 6, "bert": 4, "vit": 2}[family]
    changes = {}
    for path, head, says, _ in cells:
        without = loss(ablated={path: [int(head)]})
        changes[path, head] = without - whole
        was, now = (float(x) for x in says.partition("loss ")[2].partition(",")[0].split(" → "))
        assert (was, now) == pytest.approx((whole, without), abs=6e-5), (path, head)
        assert number(says.rpartition(", ")[2]) == pytest.approx(without - whole, abs=6e-4)
    least = min(changes, key=changes.get)
    assert [(path, head) for path, head, _, shape in cells if "least" in shape.split()] == [least]
    shown = dict(zip(page.texts(".parts label"), page.texts(".parts output"), strict=True))
    for label, key in (("Positions", "positions"), ("Causal mask", "causal"), ("Scaling by 1/√d_k", "scale")):
        assert (label in shown) == (key != "causal" or family in ("transformer", "gpt"))
        if label in shown:
            assert number(shown[label]) == pytest.approx(loss(**{key: False}) - whole, abs=6e-4), key

    # a cell switches its head off, and the losses stay those of the whole model's answer
    page.page.locator(f'[data-key="off:{least[0]}:{least[1]}"]').click()
    assert page.page.evaluate("() => page.options.ablated") == {least[0]: [int(least[1])]}
    assert page.page.evaluate("() => [...page.labels()]") == labels
    assert np.isclose(page.page.evaluate("() => page.gradients().loss"), whole + changes[least], atol=1e-5)
    assert page.page.locator(DONE).count() == 1  # nothing is measured again


def test_switched_off_parts_do_not_change_the_measured_list(open_page):
    """Each part alone is compared with the whole model, also where the changed one writes another answer."""
    page = open_page(exposed(of_transformer()[0]), bypass_csp=True)
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator(DONE).wait_for()
    before = page.page.evaluate("() => page.measures")
    page.page.locator('[data-key="check:positions"]').click()
    assert page.page.evaluate("() => String(page.answer.ids) !== String(page.before.answer.ids)")
    assert page.page.evaluate("() => page.measures") == before


def test_the_open_table_follows_the_sentence(open_page):
    model = transformer()
    page = open_page(exposed(page_of(model, "I love you", 9)), bypass_csp=True)
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("() => page.measures ?? null") is None
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator(DONE).wait_for()
    first = page.page.evaluate(CELLS)
    page.page.evaluate("() => page.set({ text: 'you love the cat' })")
    page.page.locator(DONE).wait_for()
    second = page.page.evaluate(CELLS)
    assert [says for *_, says, _ in first] != [says for *_, says, _ in second]
    page.page.evaluate("() => { page.set({ text: 'the cat' }); go('softmax'); }")  # which closes the list
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("() => page.measures.left.length") == 13
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator(DONE).wait_for()
    assert page.violations() == []


def test_measurements_of_large_models_wait_for_a_pause(open_page):
    text, *_ = of_gpt()
    page = open_page(exposed(text), bypass_csp=True)
    page.page.evaluate("() => { page.isLarge = true; }")
    page.page.locator('[data-key="what-if"]').click()
    page.page.wait_for_timeout(300)
    assert page.page.evaluate("() => page.measures.left.length") == 9
    page.page.get_by_text("Measure all 9 parts").click()
    page.page.locator(DONE).wait_for()
    page.page.locator("#sentence").fill("the")
    page.page.locator("#sentence").fill("the cat")
    assert page.page.evaluate("() => page.text") == "I love you"
    page.page.wait_for_function("() => page.text === 'the cat'")
    page.page.locator("#sentence").fill("the mat")
    page.press("Enter")
    assert page.page.evaluate("() => page.text") == "the mat"


def test_a_large_translator_writes_up_to_forty_tokens(open_page):
    model = transformer(output_bias=True)
    model.embedding.output_bias.array[words().end_id] = -1e4  # it never ends a text by itself
    page = open_page(exposed(page_of(model, "I love you", None)), bypass_csp=True)
    for is_large, length in ((False, 10 * 4 + 100), (True, 40)):
        page.page.evaluate(
            "isLarge => { page.isLarge = isLarge; page.set({ text: 'the cat sat' }); }", is_large
        )
        assert page.page.evaluate("() => page.answer.ids.length") == length
