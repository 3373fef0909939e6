"""The page of a ViT: patches have one numbering, and are shown as pictures; digits can be drawn."""

import numpy as np
import pytest

from minitransformer.explain import record
from minitransformer.explain.page import to_html
from tests.explain.test_page import STAGE, all_agree, exposed, vit, vit_model

LABELS = """
() => Object.keys(page.record.arrays).map(name => [name, page.rowLabel(name, 0), page.rowLabel(name, 1)])
"""
OVERLAY = """
() => {
  const canvas = document.querySelector("#screen .looks .chooser canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const at = share => Math.round(share * canvas.width);
  const middles = [[0.3, 0.3], [0.7, 0.3], [0.3, 0.7], [0.7, 0.7]];
  const places = middles.map(([x, y]) => 4 * (at(y) * canvas.width + at(x)));
  const orange = places.map(i => data[i] - data[i + 2]);
  return [weightsOf(page, page.path, page.head, 0).slice(1), orange];
}
"""
SELECT = "([name, ...index]) => page.set({ cell: { name, index } })"


def test_patches_have_the_same_number_on_every_stage(open_page):
    page = open_page(exposed(vit()), bypass_csp=True)
    found = {name: rest for name, *rest in page.page.evaluate(LABELS)}
    assert found["patches"] == found["encoder.embedded"] == ["patch 1", "patch 2"]
    assert found["encoder.tokens"] == found["encoder.layers.0.self_attention.weights"] == ["[CLS]", "patch 1"]
    page.page.evaluate(SELECT, ["encoder.tokens", 2, 0])
    assert page.text("#inspector .equation") == "Patch 2."
    page.page.evaluate(SELECT, ["encoder.embedded", 1, 0])
    assert page.text("#inspector h2") == "patch vector: patch 2 · 0"


def test_an_overlay_is_brightest_where_the_weight_is_largest(open_page):
    page = open_page(exposed(vit()), "#looks", bypass_csp=True)
    for head in (0, 1):
        page.page.locator(f'[data-key="gaze:0:{head}"]').click()
        weights, orange = page.page.evaluate(OVERLAY)
        assert np.argmax(weights) == np.argmax(orange)
    page.page.evaluate("() => page.set({ options: { ...page.options, ablated: { [page.path]: [1] } } })")
    assert page.page.locator("#screen .gazes td.off").count() == 1


def test_the_image_label_is_the_target_until_one_draws(open_page):
    model, image = vit_model()
    found = record(model, image.reshape(-1))
    p = found.arrays["probabilities"][0]
    right = int(p.argmin())
    text = to_html(model, None, "", title="", labels=["0", "1", "2"], image=image, target=str(right))
    page = open_page(exposed(text), "#loss", bypass_csp=True)
    assert page.texts("#screen .steps td.word") == [str(right)]
    all_agree([page.texts("#screen .mean-loss")], [[-np.log(p[right])]])
    assert page.text("#toolbar .answer") == f"→ {p.argmax()}"
    page.page.evaluate(f"() => {{ ({STAGE})('#pull'); }}")
    sizes = np.linalg.norm(found.backward([right]).activations["encoder.input"], axis=-1)
    all_agree([page.texts("#screen .bars .amount")], [sizes])
    page.page.evaluate("() => page.set({ drawing: 'q'.repeat(16) })")
    page.page.evaluate(f"() => {{ ({STAGE})('#loss'); }}")
    assert "No right answer is given" in page.text("#screen")
    assert page.texts("#screen .steps td.word") == [page.text("#toolbar .answer").removeprefix("→ ")]


def test_drawn_digits_match_the_engine(open_page):
    model, _ = vit_model()
    page = open_page(exposed(vit()), "#probabilities", bypass_csp=True)
    example = page.page.evaluate("() => page.data.image")
    page.page.locator('[data-key="draw-image"]').click()
    page.page.locator('[data-key="clear"]').click()
    assert len(set(page.page.evaluate("() => page.pixels"))) == 1
    box = page.page.locator(".board").bounding_box()
    page.page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 30, box["y"] + 150)
    page.page.mouse.up()
    page.page.mouse.move(box["x"] + 200, box["y"] + 200)  # draws no more
    pixels = np.reshape(page.page.evaluate("() => page.pixels"), (4, 4))
    assert (pixels[:3, 0] == max(example)).all()
    assert (pixels[3, 1:] == min(example)).all()
    page.page.locator(".board").focus()
    page.press("ArrowDown", "ArrowRight", " ")
    pixels = np.reshape(page.page.evaluate("() => page.pixels"), (4, 4))
    assert pixels[3, 3] == max(example)
    assert "painted" in page.text("#announcer")
    assert page.page.locator("h2#probabilities").count() == 1  # the arrows turned no page
    expected = record(model, pixels.reshape(-1)).arrays
    np.testing.assert_allclose(
        page.page.evaluate("() => [...page.record.arrays.probabilities.data]"),
        expected["probabilities"][0],
        atol=1e-5,
    )
    assert page.text("#toolbar .answer") == f"→ {expected['probabilities'][0].argmax()}"
    page.page.locator('[data-key="example"]').click()
    assert page.page.evaluate("() => page.pixels") == example


@pytest.mark.slow
def test_heat_map_rows_are_labelled_with_patch_images(open_page):
    page = open_page(vit(), "#scores")
    labels = page.page.locator("#screen .row-labels").first
    assert labels.locator("canvas.patch").count() == 4
    assert labels.locator("span").all_inner_texts() == ["[CLS]", "1", "2", "3", "4"]
