"""Heads' scores: a head built by hand scores 1 for what it attends to, even attention scores chance."""

from collections import Counter

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer import (
    BERT,
    GPT,
    BERTConfig,
    GPTConfig,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    generate,
    record_attention,
    score_heads,
)
from minitransformer.errors import UserError
from minitransformer.inspection.relations import RELATIONS, punctuation

SENTENCES = [
    ["[CLS]", "the", "cat", "saw", "the", "dog", ",", "it", "ran", "[SEP]"],
    ["[CLS]", "a", "cat", "slept", ".", "[SEP]"],
]
COUNTS = Counter({"the": 9, "cat": 8, "saw": 7, ",": 1, "it": 6, "ran": 5, "dog": 1, "a": 9, ".": 9})
REFERENT = [{7: 5}, {}]
EVERY = {"counts": COUNTS, "rare_below": 2, "referents": REFERENT}  # slept is not counted
T = 10


def uniform(is_causal=False):
    """Attention spread over what each query sees: (2, 1, T, T), the second row padded."""
    weights = np.ones((2, 1, T, T))
    weights[1, :, :, 6:] = 0
    weights = np.tril(weights) if is_causal else weights
    return weights / weights.sum(-1, keepdims=True)


def looking_at(*keys):
    """A head whose queries, in both rows, attend to these keys."""
    weights = np.zeros((2, 1, T, T))
    weights[:, :, np.arange(T), keys] = 1
    return weights


def scores_of(*heads, **options):
    return score_heads({"self_attention": np.concatenate(heads, 1)}, SENTENCES, **options)


class Shifted(nn.Module):
    """Attention over one-hot positions: its first head attends to the previous token, its second evenly."""

    def __init__(self, length):
        super().__init__()
        self.positions = mg.tensor(np.eye(length, 2 * length, dtype=np.float32))
        self.self_attention = MultiHeadAttention(2 * length, 2)
        query, key, _ = np.split(self.self_attention.in_proj_weight.array, 3)
        query[:] = key[:] = 0
        key[:length, :length] = np.eye(length)
        query[np.maximum(np.arange(length) - 1, 0), np.arange(length)] = 1000

    def forward(self, batch, is_causal):
        x = mg.stack([self.positions] * batch)
        return self.self_attention(x, None, None, is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_handmade_previous_token_head_scores_1(is_causal):
    model = Shifted(T)
    with record_attention(model) as maps, mg.no_grad():
        model(2, is_causal)
    scores = score_heads(maps, [list("abcdefghij")] * 2)
    assert scores.heads == [("self_attention", 0), ("self_attention", 1)]
    queries = range(1, T)
    seen = [t + 1 if is_causal else T for t in queries]
    chance = np.mean([1 / n for n in seen])
    np.testing.assert_allclose(scores.of("previous token"), [1, chance], atol=1e-6)
    np.testing.assert_allclose(scores.above_chance("previous token"), [1 - chance, 0], atol=1e-6)
    assert scores.of("next token")[0] == pytest.approx(0 if not is_causal else np.nan, nan_ok=True)


@pytest.mark.parametrize("is_causal", [False, True])
def test_uniform_attention_scores_chance_for_every_relation(is_causal):
    scores = scores_of(uniform(is_causal), **EVERY)
    assert scores.relations == [*RELATIONS, "rare words", "referent"]
    np.testing.assert_allclose(scores.scores, scores.chance)
    undefined = [
        name for name, score in zip(scores.relations, scores.scores[0], strict=True) if np.isnan(score)
    ]
    assert undefined == (["next token"] if is_causal else [])  # nobody sees it


@pytest.mark.parametrize("is_causal", [False, True])
def test_chance_is_computed_over_visible_keys(is_causal):
    scores = scores_of(uniform(is_causal), **EVERY)
    expected = {name: [] for name in scores.relations}
    for tokens, referents in zip(SENTENCES, REFERENT, strict=True):
        for t, query in enumerate(tokens):
            seen = range(t + 1) if is_causal else range(len(tokens))
            keys = {
                "previous token": [s for s in seen if s == t - 1],
                "next token": [s for s in seen if s == t + 1],
                "same word": [s for s in seen if s != t and tokens[s] == query],
                "first token": [s for s in seen if s == 0 and t > 0],
                "punctuation": [s for s in seen if tokens[s] in (",", ".", "[SEP]")],
                "rare words": [s for s in seen if tokens[s] in (",", "dog", "slept")],
                "referent": [s for s in seen if s == referents.get(t)],
            }
            for name, found in keys.items():
                if found and len(found) < len(seen):
                    expected[name].append(len(found) / len(seen))
    means = [np.mean(each) if each else np.nan for each in expected.values()]
    np.testing.assert_allclose(scores.chance[0], means)


def test_a_head_that_follows_a_relation_scores_1():
    to = {"previous token": [0, *range(T - 1)], "first token": [0] * T, "referent": [5] * T}
    for name, keys in to.items():
        assert scores_of(looking_at(*keys), **EVERY).of(name) == 1, name
    scores = scores_of(looking_at(1, 4, 0, 0, 1, 0, 0, 0, 0, 0), looking_at(*[1] * T), **EVERY)
    assert scores.of("same word").tolist() == [1, 0.5]  # the second: from "the" to itself, and to the other
    weights = np.concatenate([looking_at(*[6] * T)[:1], looking_at(*[4] * T)[1:]])
    assert scores_of(weights).of("punctuation") == 1
    weights = np.concatenate([looking_at(*[5] * T)[:1], looking_at(*[3] * T)[1:]])
    assert scores_of(weights, **EVERY).of("rare words") == 1
    forward = looking_at(*range(1, T), T - 1)
    assert scores_of(forward).of("next token") == 1


def test_head_scores_ignore_padding_on_either_side():
    weights = uniform()
    weights[1, :, 6:] = np.eye(T)[0]  # what padding attends to
    scores = scores_of(weights, **EVERY)
    np.testing.assert_allclose(scores.scores, scores_of(uniform(), **EVERY).scores)
    left = weights.copy()
    left[1] = np.roll(weights[1], 4, (1, 2))
    padded = [SENTENCES[0], ["<PAD>"] * 4 + SENTENCES[1]]
    found = score_heads({"self_attention": left}, padded, **EVERY)
    np.testing.assert_allclose(found.scores, scores.scores)
    np.testing.assert_allclose(found.chance, scores.chance)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_uniform_attention_scores_exactly_chance(family):
    """A model whose queries are all zero attends evenly."""
    ids = np.array([[4, 5, 6, 7, 4, 5], [4, 6, 5, 0, 0, 0]])
    if family == "bert":
        model = BERT(BERTConfig(9, 8, 2, 2, 8, max_position_embeddings=8))
        inputs = [ids]
    else:
        model = GPT(GPTConfig(9, 8, 8, 2, 2))
        inputs = [ids, mg.tensor(ids > 0)]
    for name, p in model.named_parameters():
        if "in_proj" in name:
            p.array[:8] = 0
    with record_attention(model.eval()) as maps, mg.no_grad():
        model(*inputs)
    scores = score_heads(maps, [list("abcdab"), list("acb")])
    assert len(scores.heads) == 4
    np.testing.assert_allclose(scores.scores, scores.chance, atol=1e-6)
    assert np.isnan(scores.of("next token")).all() == (family == "gpt2")


def test_head_scores_can_be_sorted_and_printed_as_a_table():
    scores = scores_of(uniform(), looking_at(0, *range(T - 1)), uniform(), **EVERY)
    best = scores.sorted_by("previous token")
    assert [head for _, head in best.heads] == [1, 0, 2]
    assert best.of("previous token")[0] == 1
    lines = str(best).splitlines()
    assert lines[1].split()[:2] == ["layer", "head"]
    assert [line.split()[:3] for line in lines[-4:-1]] == [
        ["self-attention", "2", "1.00"], ["self-attention", "1", "0.12"], ["self-attention", "3", "0.12"],
    ]  # fmt: skip
    assert lines[-1].split()[:3] == ["by", "chance", "0.12"]
    causal = scores_of(uniform(True))
    assert " -  " in str(causal)
    both = score_heads({"a": uniform(), "b": uniform(True)}, SENTENCES, "*")
    assert [line.split()[:3] for line in str(both).splitlines()[-2:]] == [
        ["a", "by", "chance"], ["b", "by", "chance"],
    ]  # fmt: skip
    with pytest.raises(UserError, match="unknown relation 'previous'"):
        scores.sorted_by("previous")


def test_user_defined_relations_are_scored():
    second = lambda tokens: np.tile(np.arange(len(tokens)) == 1, (len(tokens), 1))
    scores = scores_of(looking_at(*[1] * T), relations={"second": second})
    assert scores.relations == ["second"]
    assert scores.of("second") == 1


def test_punctuation_tokens_of_every_tokenizer_are_recognized():
    marks = [".", "▁,", "Ġ?", "<END>", "[SEP]", "</s>", "«", "..."]
    words = ["a", "▁", "Mr.", "[CLS]", "<START>", "l'"]
    assert punctuation([*marks, *words])[0].tolist() == [True] * len(marks) + [False] * len(words)


def test_attention_that_does_not_match_the_tokens_is_rejected():
    model = Transformer(TransformerConfig(9, 8, 2, 8, 1, 1)).eval()
    gpt = GPT(GPTConfig(9, 8, 8, 1, 2)).eval()
    with record_attention(model) as maps, record_attention(gpt) as steps, mg.no_grad():
        model(np.array([[4, 5, 6]]), np.array([[2, 7]]))
        generate(gpt, [[1, 2]], 2, eos_token_id=())
    assert len(score_heads(maps, ["abc"], "encoder*").heads) == 2
    for recorded, arguments, message in (
        (maps, {}, r"decoder.* attends from 2 queries to 2 keys .* 1 sentence of at most 3"),
        (maps, {"pattern": "layers*"}, r"no attention that was recorded matches 'layers\*'"),
        ({}, {}, "no attention that was recorded matches"),
        (maps, {"pattern": "encoder*", "referents": [{}, {}]}, "referents of 2 sentences for 1"),
        (maps, {"pattern": "encoder*", "referents": [{1: 3}]}, "a position in a sentence of 3 tokens = 3 is"),
        (steps, {}, "got a list of 2"),
    ):
        with pytest.raises(UserError, match=message):
            score_heads(recorded, ["abc"], **arguments)
