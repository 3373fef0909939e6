"""The experiments on attention heads: their arms differ in what they say, and in nothing else."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.core.observers import observe
from minigrad.nn import functional as F
from minitransformer import MultiHeadAttention
from minitransformer.claims import Trial, three_relations
from minitransformer.claims.experiments import (
    head_pruning,
    heads_specialise,
    many_heads,
    sqrt_dk,
    three_matrices,
)
from minitransformer.claims.experiments.three_matrices import OneMatrix
from minitransformer.claims.translating import attentions, sentences, size, translator
from minitransformer.inspection.heads import HeadScores

SEED = 900


@pytest.mark.parametrize("experiment", [many_heads, three_matrices])
@pytest.mark.parametrize("case", ["three relations", "translation"])
def test_arms_about_heads_have_equal_parameters(experiment, case):
    claim = getattr(experiment, experiment.__name__.rpartition(".")[2])
    ours, theirs = (size(experiment.build(Trial(arm, case, 0, SEED))) for arm in claim.arms)
    assert abs(ours / theirs - 1) < 0.02


def test_one_matrix_attention_shares_queries_keys_and_values():
    attention = OneMatrix(8, 2)
    x, memory = mg.randn(2, 3, 5, 8)
    assert attention.in_proj_weight.shape == (8, 8)
    for tokens in (None, memory):
        q, kv = attention.project(x, tokens)
        k, v = kv.chunk(2, -1)
        assert np.array_equal(k, v)
        assert np.array_equal(attention.project(x if tokens is None else tokens)[0], k)
        assert np.array_equal(q, attention.project(x)[0])


def test_undivided_scores_are_larger_by_sqrt_d_k():
    data = sentences(SEED)
    for case, heads in sqrt_dk.HEADS.items():
        divided, not_divided = (
            sqrt_dk.build(Trial(arm, case, 0, SEED), data) for arm in sqrt_dk.sqrt_dk.arms
        )
        for ours, theirs in zip(attentions(divided), attentions(not_divided), strict=True):
            assert np.array_equal(ours.in_proj_weight, theirs.in_proj_weight)
            assert theirs.scale / ours.scale == pytest.approx((64 / heads) ** 0.5)


def test_query_gradients_are_measured_per_unit_head_output():
    attention = MultiHeadAttention(8, 2)
    x = mg.randn(1, 5, 8)
    with observe(observer := sqrt_dk.QueryGradients(4)):
        attention(x).sum().backward()
    qkv = attention.project(x)[0].detach()
    q, k, v = (part.reshape(5, 2, 4).transpose(0, 1) for part in qkv.chunk(3, -1))
    q.requires_grad_()
    g = attention.out_proj.weight.detach().sum(0).reshape(2, 1, 4).expand(2, 5, 4)
    F.scaled_dot_product_attention(q, k, v).backward(g)
    expected = np.linalg.norm(q.grad.numpy(), axis=-1) / np.linalg.norm(g.numpy(), axis=-1)  # (2, 5)
    assert np.allclose(observer.lengths[0].reshape(5, 2).T, expected, rtol=1e-4)


def test_three_relations_answers_match_their_definition():
    letters, colours = three_relations.make_batch(4, np.random.default_rng(SEED))
    right = three_relations.answers(letters, colours)
    for n, t in np.ndindex(letters.shape):
        twins = [s for s in range(13) if letters[n, s] == letters[n, t] and s != t]
        stop = letters[n].tolist().index(three_relations.STOP)
        keys = [t - 1 if t else None, twins[0] if twins else None, stop if t != stop else None]
        expected = [three_relations.IGNORED if s is None else colours[n, s] for s in keys]
        assert right[:, n, t].tolist() == expected


def test_three_relations_held_out_sentences_are_not_trained_on():
    letters, colours = three_relations.make_batch(1000, np.random.default_rng(SEED))
    others = three_relations.held_out(SEED)
    known = {row.tobytes() for row in np.concatenate([letters, colours], -1)}
    assert not known & {row.tobytes() for row in np.concatenate(others, -1)}


def test_head_pruning_removes_a_tenth_each_time():
    data = sentences(SEED, count=20)
    model = translator(data, d_model=16, num_heads=2, d_ff=16, num_encoder_layers=1, num_decoder_layers=2)
    heads = head_pruning.heads_of(model)
    removed = head_pruning.by_importance(model, data)
    assert len(heads) == 10
    assert len(set(removed)) == len(removed) == 4
    one_left = head_pruning.all_but_one(model, data)
    assert len(one_left) == 1


def test_own_heads_assigns_a_distinct_head_per_relation():
    shares = np.array([[0.9, 0.8], [0.1, 0.5], [0.1, 0.0]])  # the first head would be the best for both
    scores = HeadScores([("layer", i) for i in range(3)], ["a", "b"], shares, np.zeros_like(shares))
    assert heads_specialise.own_heads(scores, ["a", "b"]) == {"a": 0, "b": 1}
