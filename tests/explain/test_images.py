"""The page of a ViT: patches have one numbering, and are shown as pictures."""

from tests.explain.test_page import exposed, vit

LABELS = """
() => Object.keys(page.record.arrays).map(name => [name, page.rowLabel(name, 0), page.rowLabel(name, 1)])
"""
SELECT = "([name, ...index]) => page.set({ cell: { name, index } })"


def test_a_patch_has_the_same_number_on_every_stage(open_page):
    page = open_page(exposed(vit()), bypass_csp=True)
    found = {name: rest for name, *rest in page.page.evaluate(LABELS)}
    assert found["patches"] == found["encoder.embedded"] == ["patch 1", "patch 2"]
    assert found["encoder.tokens"] == found["encoder.layers.0.self_attention.weights"] == ["[CLS]", "patch 1"]
    page.page.evaluate(SELECT, ["encoder.tokens", 2, 0])
    assert page.text("#inspector .equation") == "Patch 2."
    page.page.evaluate(SELECT, ["encoder.embedded", 1, 0])
    assert page.text("#inspector h2") == "patch vector: patch 2 · 0"
