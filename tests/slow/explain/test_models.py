"""The page of a model's sentence, in a real browser: language models, the documents' model, and switches."""

import minigrad as mg
from minitransformer import (
    GPT,
    GPTConfig,
    generate,
)  # fmt: skip
from minitransformer.explain import Switches, explain_documents, record
from minitransformer.explain.documents import ENCODER
from tests.explain.test_page import STAGE, check_against, page_of, scaled, shown, sizes, transformer, words
from tools.by_hand import fit


def test_language_model_pages_write_up_to_the_position_limit(open_page):
    model = scaled(GPT(GPTConfig(**sizes(n_positions=8, n_embd=12, n_layer=1, n_head=2))))
    text = "I love you the cat sat on the"
    page = open_page(page_of(model, text, 8))  # with all positions, at first
    for most in (1, 2, 3, 4):
        page.page.fill("#sentence", text)
        (written,) = generate(model, [words().encode(text)], most)
        assert page.text("#toolbar .answer") == f"→ …{words().decode(written)}".strip()
        assert page.page.locator(".problem").count() == 0
        rows = page.page.evaluate(f"() => ({STAGE})('#loss').querySelectorAll('.steps tbody tr').length")
        assert rows == len(words().encode(text)) + len(written) - 1
        text = text.rpartition(" ")[0]


def test_printed_numbers_are_shown_beside_computed_ones(open_page):
    before = mg.get_rng_state().numpy()
    page = open_page(explain_documents().page, "#documents")
    assert (mg.get_rng_state().numpy() == before).all()  # its model is made without the caller's draws
    sections = page.texts("#screen .example")
    assert len(sections) == 11
    titles = ["“Transformer Network”. "] * 4 + ["“Transformers - Attention Is All You Need”. "]
    assert all(title in text for title, text in zip(titles, sections, strict=False))
    assert "Document 0" not in " ".join(sections)
    differ = [text.count("; computed: ") for text in sections]
    assert differ == [16, 0, 6, 0, 16, 10, 2, 0, 5, 0, 1]
    assert "the text prints 3.21; computed: 4.148" in sections[0]
    everything = page.text("main")
    assert "✗" not in everything
    assert "✓" not in everything
    page.page.evaluate("() => { location.hash = '#scores'; }")
    page.page.locator("h2#scores").wait_for()
    page.page.locator('[data-key="numbers"]').click()
    assert page.page.locator("#screen .printed").count() == 0  # nobody has asked
    page.page.locator(f'[data-key="check:compare {ENCODER}.scores"]').click()
    off = "the text prints 3.21; computed: 4.148"
    assert page.texts("#screen .printed")[:4] == ["printed: 0.96", "printed: 4.15", "printed: 2.46", off]
    assert page.text("#toolbar .answer") == "→ Je t'aime"


def test_switches_match_the_engine(open_page):
    model = transformer()
    tokenizer = words()
    path = "decoder.layers.0.self_attention"
    page = open_page(page_of(model, "I love you", target="the mat"), f"#heads:{path}")
    page.page.locator('[data-key="what-if"]').click()
    page.page.locator(f'[data-key="off:{path}:1"]').click()
    for key in ("causal", "positions", "scale"):
        page.page.locator(f'[data-key="check:{key}"]').click()
    labels = [*tokenizer.encode("the mat"), tokenizer.end_id]
    source = [*tokenizer.encode("I love you"), tokenizer.end_id]
    off = Switches(causal=False, positions=False, scale=False, ablated={path: [1]})
    expected = record(model, source, [tokenizer.start_id, *labels[:-1]], off).arrays
    stages = ["#positions", "#scale", "#mask", "#heads"]
    assert check_against(shown(page, stages), expected, "av") > 100


def test_fitted_weights_reproduce_all_printed_numbers():
    assert fit()[1] < 0.001
