"""The numbers that the documents work through, by the library's own functions, and docs/documents.md."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad.nn import functional as F
from minitransformer import MultiHeadAttention, Transformer, TransformerConfig
from minitransformer.explain import documents
from minitransformer.layers import Encoder, LayerConfig
from minitransformer.layers.embeddings import TokenEmbedding
from minitransformer.layers.masks import causal_mask
from minitransformer.layers.positions import positional_encoding

HERE = Path(__file__)
COMPUTED = json.loads(HERE.with_name("worked_examples.json").read_text(encoding="utf-8"))  # independently


def worked(name):
    """The inputs of an example, and what follows from them."""
    return documents.example(name)["inputs"], COMPUTED[name]


@pytest.fixture
def example():
    return worked


def close(given, expected):
    np.testing.assert_allclose(getattr(given, "array", given), np.array(expected), rtol=0, atol=1e-6)


def tensor(rows):
    return mg.tensor(rows, dtype="float64")


def attend(q, k, v, expected):
    scores = q @ k.mT
    close(scores, expected["scores"])
    close(scores / 2, expected["scaled"])  # sqrt(d_k) = 2
    close(F.softmax(scores / 2), expected["weights"])
    close(F.scaled_dot_product_attention(q, k, v), expected["output"])


def test_i_love_you_attention_matches_the_document(example):
    given, expected = example("i-love-you")
    embedding = TokenEmbedding(10, 4, scale=False).double()
    embedding.load_state_dict({"weight": given["embedding"]})
    pe = positional_encoding(3, 4, np.float64)
    close(pe, expected["positional_encoding"])
    x = embedding(np.array([given["tokens"]]))[0] + mg.tensor(pe)
    close(x, expected["x"])
    q, k, v = (x @ tensor(given[w]) for w in ("W_q", "W_k", "W_v"))
    for name, value in zip("qkv", (q, k, v), strict=True):
        close(value, expected[name])
    attend(q, k, v, expected)


def test_i_love_you_matches_multi_head_attention_with_one_head(example):
    given, expected = example("i-love-you")
    attention = MultiHeadAttention(4, 1).double()
    stacked = np.concatenate([np.array(given[w]).T for w in ("W_q", "W_k", "W_v")])
    attention.load_state_dict(
        {
            "in_proj_weight": stacked,
            "in_proj_bias": np.zeros(12),
            "out_proj.weight": np.eye(4),
            "out_proj.bias": np.zeros(4),
        }
    )
    close(attention(tensor([expected["x"]]))[0], expected["output"])


def test_causal_mask_weights_match_the_document(example):
    given, expected = example("causal-mask")
    scores = tensor(given["scores"])
    close(F.softmax(scores.masked_fill(~causal_mask(4), -np.inf)), expected["weights"])
    identity = tensor(
        np.eye(4)
    )  # attention whose scores are the given ones, and whose values are unit vectors
    close(
        F.scaled_dot_product_attention(scores, identity, identity, is_causal=True, scale=1.0),
        expected["weights"],
    )


def test_next_word_probabilities_match_the_document(example):
    given, expected = example("next-word")
    logits = tensor(given["logits"])
    close(F.softmax(logits), expected["probabilities"])
    assert logits.argmax().item() == expected["argmax"]


@pytest.mark.parametrize("name", ["three-tokens", "i-love-ai"])
def test_attention_of_given_q_k_v_matches_the_document(example, name):
    given, expected = example(name)
    attend(*(tensor(given[x]) for x in "qkv"), expected)


def test_query_projection_matches_the_document(example):
    given, expected = example("query-projection")
    close(F.linear(tensor(given["x"]), tensor(given["W_q"]).T), expected["q"])


def test_positional_encoding_matches_the_document(example):
    given, expected = example("positional-encoding-6x4")
    close(positional_encoding(given["n"], given["d_model"], np.float64), expected["pe"])


def test_scaled_and_unscaled_softmax_match_the_document(example):
    given, expected = example("why-scale")
    for name in ("unscaled", "scaled"):
        close(F.softmax(tensor(given[name])), expected[name])


def test_label_smoothing_matches_the_document(example):
    given, expected = example("label-smoothing")
    logits = mg.zeros(1, given["classes"], dtype="float64", requires_grad=True)
    F.cross_entropy(logits, [given["target"]], label_smoothing=given["epsilon"]).backward()
    smoothed = F.softmax(logits)[0] - logits.grad[0]  # the gradient is softmax - target
    close(smoothed, expected["target"])


def test_paper_base_parameter_counts_match_the_document(example):
    given, expected = example("paper-base-parameters")
    assert (
        MultiHeadAttention(given["d_model"], given["heads"]).num_parameters() - 4 * given["d_model"]
        == expected["attention_weights_per_layer"]
    )
    model = Transformer(TransformerConfig(given["vocabulary"]))
    c = model.config
    assert (c.d_model, c.d_ff, c.num_encoder_layers, c.num_heads) == tuple(
        given[k] for k in ("d_model", "d_ff", "layers", "heads")
    )
    parts = {"encoder": "encoder", "decoder": "decoder", "embedding": "embedding_tied"}
    for part, name in parts.items():
        assert getattr(model, part).num_parameters() == expected[name]
    assert model.num_parameters() == expected["total_tied"]


# ---------------------------------------------------------------- the tables of docs/documents.md


def rows(title):
    """The cells of each row of a section's table."""
    text = (HERE.parents[2] / "docs" / "documents.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {title}$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    return [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in section.splitlines() if line.startswith("| ")][
        1:
    ]


def numbers(cell):
    """The numbers of a cell, each with half a unit of its last place; whole numbers are exact."""
    found = re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?|(?<!\d)-?\.\d+", cell)
    found = [each.replace(",", "") for each in found]
    return [(float(each), 0.501 * 10.0 ** -len(each.partition(".")[2]) * ("." in each)) for each in found]


def is_shown(value, cell):
    return any(abs(value - shown) <= half + 1e-9 for shown, half in numbers(cell))


def softmax(scores):
    return F.softmax(tensor(scores)).numpy()


def cosine(a, b):
    return np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)


LOVE, AI = worked("i-love-you"), worked("i-love-ai")
MASKED, THREE = worked("causal-mask")[1]["weights"], worked("three-tokens")[1]
PE = positional_encoding(1010, 512, np.float64)
E = np.array(LOVE[0]["embedding"])
YOU_LOVE_I = E[[3, 2, 1]] + positional_encoding(3, 4, np.float64)
X = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.8, 0.2], [0.9, 0.7, 0.2, 0.1]])  # I, love, AI of **S**
X = X + positional_encoding(3, 4, np.float64)
KING = [0.9, 0.8, 0.2, 0.1]
THE_CAT = ["The", "cat", "sat", "on", "the", "mat"]
THE_ANIMAL = ["The", "animal", "didn't", "cross", "the", "street", "because", "it"]
LOOKS = [[0.45, 0.3, 0.25], [0.35, 0.4, 0.25], [0.3, 0.25, 0.45]]
LOOKS += [[0.2, 0.5, 0.3], [0.25, 0.25, 0.5], [0.4, 0.35, 0.25]]


def ratio(weights):
    return weights[0] * weights[2] / weights[1] ** 2


def ratios_of_any_projections():
    x = np.arange(8) / 10 + 0.1 + np.arange(3)[:, None] / 10
    w_q, w_k = np.random.default_rng(0).normal(size=(2, 8, 4))
    return [ratio(row) for row in softmax(x @ w_q @ (x @ w_k).T / 2)]


def largest_move():
    """How far the outputs of attention are from those in the other order, if the inputs change places."""
    attention, x = MultiHeadAttention(8, 2).double(), mg.randn(1, 3, 8, dtype="float64")
    return abs(attention(x)[:, [2, 0, 1]] - attention(x[:, [2, 0, 1]])).max().item()


def apart(base):
    angles = np.arange(60)[:, None] / base ** (np.arange(0, 64, 2) / 64)
    table = np.hstack([np.sin(angles), np.cos(angles)])
    return [cosine(table[0], table[k]) for k in (1, 5, 50)]


def off(name, which):
    printed = documents.example(name)["printed"][which]
    return np.abs(np.array(printed) - worked(name)[1][which]).max()


RIGHT = {  # the first words of what is printed: the numbers that follow from the inputs
    "the vectors of": [*YOU_LOVE_I[0], *YOU_LOVE_I[2]],
    "scores of rows 2": [LOVE[1]["scores"][1][0], LOVE[1]["scores"][0][1]],
    '"love" attends most': LOVE[1]["weights"][1][:2],
    "masked weights": [*MASKED[2][:3], *MASKED[3]],
    'the probability of "world"': [worked("next-word")[1]["probabilities"][8]],
    "king, queen": [cosine(KING, other) for other in ([0.9, 0.7, 0.3, 0.1], [0.1, 0.2, 0.9, 0.8])],
    "the score of token 3": [THREE["scores"][2][0], *THREE["weights"][2]],
    "the output of token 1": THREE["output"][0],
    "about 65 million": [worked("paper-base-parameters")[1]["total_tied"] / 1e6],
    "cos(0.01)": [np.cos(0.01)],
    "the query of the first": worked("query-projection")[1]["q"][0][2:],
    "PE[1, :4]": PE[1, :4],
    "softmax(10": worked("why-scale")[1]["unscaled"],
    "scores such as 6.33": [AI[1]["scores"][2][2], off("i-love-ai", "scores"), off("i-love-ai", "weights")],
    'the rows of "love"': [*X[2], *X[0], softmax(X @ worked("query-projection")[0]["W_q"] @ X.T / 2)[0][1]],
    "weights .45": [*ratios_of_any_projections(), *map(ratio, LOOKS)],
    "the 10000 was": [*apart(10), *apart(10000)],
    "the decoder's output": [0.1 + 0.3 + 0.8 + 0.05, softmax([0.1, 0.3, 0.8, 0.05]).sum()],
    '"mat" is position 5': [1 + THE_CAT.index("mat")],
    '"it" is word 9': [1 + THE_ANIMAL.index("it")],
    '"love" has the query': [q_k := np.dot([0.4, 0.5, 0.6], [0.5, 0.1, 0.3]), q_k / 3**0.5],
    "the difference of the encodings": [
        np.linalg.norm(PE[5] - PE[3]), np.linalg.norm(PE[1005] - PE[1003]),
        cosine(PE[5] - PE[3], PE[1005] - PE[1003]),
    ],
    "attention is permutation-invariant": [largest_move()],
    "of 1,000,000": [softmax([1_000_000.0, 1_000_001.0])[1]],
}  # fmt: skip
MEASURED = ("label smoothing has", "the warm-up moves", "words that are similar")  # in trainings


@pytest.mark.parametrize("row", rows("Slips"), ids=lambda row: row[1][:30])
def test_corrected_numbers_are_reproduced(row):
    text, printed, right = row
    assert re.fullmatch(r"\*\*[NASCB]\*\*", text)
    found = [values for start, values in RIGHT.items() if printed.startswith(start)]
    if not found:
        assert "." not in re.sub(r"[.](?!\d)", "", right) or printed.startswith(MEASURED)
        return
    assert all(is_shown(value, right) for value in found[0]), (printed, right, found[0])
    assert not numbers(printed) or not all(is_shown(value, printed) for value in found[0]), "not a slip"


def test_every_corrected_number_has_a_row():
    printed = [row[1] for row in rows("Slips")]
    assert all(sum(each.startswith(start) for each in printed) == 1 for start in (*RIGHT, *MEASURED))


RESULTS = {
    "I love you": LOVE[1]["weights"],
    "Three tokens": THREE["weights"],
    "I love AI": [*np.array(AI[1]["weights"])[:, 2], *AI[1]["output"][0]],
    "Causal mask": MASKED,
    "Query": worked("query-projection")[1]["q"][0],
    "Positions": np.array(worked("positional-encoding-6x4")[1]["pe"])[[1, 5]],
}


@pytest.mark.parametrize("row", rows("Six worked examples"), ids=lambda row: row[0])
def test_worked_example_results_are_reproduced(row):
    name = row[0].partition(" (")[0]
    assert all(is_shown(value, row[2]) for value in np.ravel(RESULTS[name]) if abs(value) > 0.005)


def test_other_corrections_are_true():
    assert (np.array(AI[0]["k"])[2] > np.array(AI[0]["k"])[:2]).all()  # "AI" wins for any positive query
    close(np.array(LOVE[1]["scores"]), np.array(LOVE[1]["scores"]).T)
    np.testing.assert_allclose(X[1], [1.34, 0.64, 0.81, 1.20], atol=0.005)  # "love", printed for "I"
    assert softmax(X @ worked("query-projection")[0]["W_q"] @ X.T / 2)[0].argmax() == 1
    np.testing.assert_allclose(ratios_of_any_projections(), 1)


def test_epsilon_added_to_sigma_gives_nan_for_equal_inputs():
    equal = mg.zeros(4, dtype="float64", requires_grad=True)
    with np.errstate(all="ignore"):
        (equal / (((equal - equal.mean()) ** 2).mean() ** 0.5 + 1e-5)).sum().backward()
    assert np.isnan(equal.grad.numpy()).all()


def test_the_walkthrough_counts_the_same_parameters(example):
    from minitransformer.explain.documents import RECOMPUTED

    given, expected = example("paper-base-parameters")
    assert RECOMPUTED["paper-base-parameters"](given)["total_in_millions"] == expected["total_tied"] / 1e6


def test_an_encoder_can_be_built_from_the_layers_alone():
    config = LayerConfig(d_model=8, num_heads=2, d_ff=16)
    assert Encoder(2, config)(mg.randn(1, 3, 8)).shape == (1, 3, 8)
