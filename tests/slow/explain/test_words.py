"""What the stages say is true of models of every family."""

import re

import pytest

from minitransformer import GPT, GPTConfig
from minitransformer.models.llama import Llama, LlamaConfig
from minitransformer.text.tokenizer import Tokenizer
from tests.explain.test_page import (
    STAGE,
    bert,
    exposed,
    families,
    number,
    page_of,
    scaled,
    sizes,
    transformer,
    vit,
)

TEXT = "you love the cat"


WALK = f"""
() => page.screens.map(({{ address }}) => {{
  const screen = ({STAGE})(`#${{address}}`);
  const all = selector => [...screen.querySelectorAll(selector)];
  const figure = part => {{
    const cells = [...part.querySelectorAll("tbody [data-key]")];
    const numbers = cells.map(cell => [cell.dataset.key.split(":")[2], cell.textContent]);
    const name = cells[0].dataset.key.split(":")[1];
    const {{ kind = "weight", bias }} = page.plan.get(name) ?? {{}};
    return {{ name, kind, biased: Boolean(bias && bias in page.weights), numbers }};
  }};
  const parts = all(".sign, figure.matrix").filter(part => !part.closest(".in-row"));
  return [address, {{
    text: screen.textContent,
    formula: all(".formula").map(each => each.textContent).join(" "),
    parts: parts.map(part => (part.matches(".sign") ? part.textContent : figure(part))),
  }}];
}})
"""


def page_of_family(name):
    return next(text for family, text in families() if family == name)


def characters():
    tokenizer = Tokenizer.train_char([TEXT])
    config = GPTConfig(tokenizer.vocab_size, n_positions=32, n_embd=12, n_layer=1, n_head=2)
    return page_of(scaled(GPT(config)), TEXT, limit=32, tokenizer=tokenizer)


def llama():
    sizes_ = sizes(hidden_size=16, intermediate_size=14, num_hidden_layers=1, num_attention_heads=4)
    return page_of(scaled(Llama(LlamaConfig(**sizes_, num_key_value_heads=2))), TEXT)


PRE_NORM_WITHOUT_BIASES = {
    "num_decoder_layers": 1, "norm_first": True, "bias": False, "concatenate_positions": True,
}  # fmt: skip


PAGES = {
    "the paper's": lambda: page_of(transformer(num_decoder_layers=1), TEXT),
    "pre-norm": lambda: page_of(transformer(**PRE_NORM_WITHOUT_BIASES), TEXT),
    "ALiBi": lambda: page_of(transformer(num_decoder_layers=1, positions="alibi"), TEXT),
    "Llama": llama,
    "T5": lambda: page_of_family("t5"),
    "BART": lambda: page_of_family("bart"),
    "BERT": bert,
    "classes": lambda: bert("classification", labels=["thing", "place"]),
    "sentences": lambda: bert("similarity", labels=["I love you", "you see me"]),
    "characters": characters,
    "ViT": vit,
}


LAYER_NORM = {name: name not in ("Llama", "T5") for name in PAGES}


BIASED = {name: name not in ("Llama", "T5", "pre-norm") for name in PAGES}


PRE_NORM = {"pre-norm", "Llama", "T5", "characters", "ViT"}


def close(text, expected, largest):
    return abs(number(text) - expected) <= 0.02 * largest


def assert_sum(terms, sign, result):
    """Term by term, the numbers that are shown make up the ones that follow."""
    *terms, result = (dict(part["numbers"]) for part in (*terms, result))
    largest = max(abs(number(text)) for text in result.values() if "∞" not in text)
    if sign == "beside":
        assert all(close(text, number(result[index]), largest) for index, text in terms[0].items())
        return
    for index, text in result.items():
        total = sum(number(term[index]) for term in terms)
        assert "∞" in text or close(text, total, largest), (index, text, total)


KINDS = {  # what a sign says was done, and the steps that do it
    "times": {"project", "linear", "scale", "same"}, "rotated": {"rotate"},
    "divided": {"scale", "unit"}, "the": {"average"}, "unchanged": {"scale"},
    "softmax": {"softmax"}, "with": {"mask"}, "normalized": {"same"}, "row": {"first", "segment"},
    "relu": {"activate"}, "gelu": {"activate"}, "silu": {"activate"}, "tanh": {"activate"},
}  # fmt: skip


def check_signs(parts):
    """Each sign stands between the numbers of which it is true."""
    checked = 0
    for i, part in enumerate(parts):
        if not isinstance(part, str) or not part.endswith("=") or i + 1 == len(parts):
            continue
        result = parts[i + 1]
        terms = [parts[i - 1]]
        sign = ""
        while i >= 2 * len(terms) and parts[i - 2 * len(terms)] in ("+", "beside"):
            sign = parts[i - 2 * len(terms)]
            terms.append(parts[i - 2 * len(terms) - 1])
        if sign:
            assert_sum(terms[::-1], sign, result)
        elif part != "=":
            word = re.match(r"[a-z]+", part)[0]
            assert result["kind"] in KINDS[word], (part, result["name"])
            if word == "times" and result["kind"] != "scale":
                assert ("plus a bias" in part) == result["biased"], (part, result["name"])
        checked += 1
    return checked


def step(name):
    """`norm.mean` of `decoder.layers.0.residual2.norm.mean`: an array's name without its place."""
    return re.sub(r"^.*(residual\d|attention|feed_forward|encoder|decoder|layers|head)\.", "", name)


@pytest.mark.parametrize("name", PAGES)
def test_stage_texts_are_true_of_the_model(name, open_page):
    page = open_page(exposed(PAGES[name]()), bypass_csp=True)
    stages = dict(page.page.evaluate(WALK))
    assert sum(check_signs(stage["parts"]) for stage in stages.values()) >= 8

    # biases, norms and scaling are named where there are any
    everything = " ".join(stage["text"] for stage in stages.values())
    forward = stages["feed-forward"]["formula"]
    assert [mark in forward for mark in ("b₁", "b₂", "b₃")] == [BIASED[name], BIASED[name], False]
    assert ("W₃" in forward) == (name == "Llama")
    for claim in ("mean 0, variance 1", "variance + ε", "− mean", "Layer norm"):
        assert (claim in everything) == LAYER_NORM[name], claim
    assert ("times gain, plus bias" in everything) == LAYER_NORM[name]
    scaled_ = name != "T5"
    assert ["√" in stages[stage]["formula"] for stage in ("attention", "scale")] == [scaled_, scaled_]
    assert ("with scaling" in stages["scale"]["text"]) == scaled_

    # each step of the model has a stage, and so has what the input is made of
    figures = [part for stage in stages.values() for part in stage["parts"] if not isinstance(part, str)]
    steps = set(map(step, page.page.evaluate("() => Object.keys(page.record.arrays)")))
    unseen = {"logits", "probabilities", "k_unrotated"}  # largest columns alone; at the press of K
    assert steps - {step(figure["name"]) for figure in figures} <= unseen
    shown = {step(part["name"]) for part in stages["positions"]["parts"] if not isinstance(part, str)}
    assert "positions" not in steps or shown >= steps & {"positions", "segments", "embedding_sum", "input"}
    assert "positions" in stages
    assert ("segments" in stages) == (name in ("BERT", "classes", "sentences"))
    assert ("input-norm" in stages) == (name in ("BERT", "classes", "sentences", "BART"))
    assert ("final-norm" in stages) == (name in PRE_NORM)
    assert ("head" in stages) == (name in ("BERT", "classes", "sentences", "ViT", "T5"))

    # rows are words, characters or patches
    if name in ("characters", "ViT"):
        assert re.findall(r"\bwords?\b", everything) == []
    if "alignment" in stages:
        assert "languages" not in everything
