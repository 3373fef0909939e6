"""Greedy and beam search of a GPT against Hugging Face's `generate`: same weights, prompts of any length."""

import warnings

import numpy as np
import pytest

from minitransformer import GPT, GPTConfig, generate

from .from_transformers import as_theirs, randomized

torch = pytest.importorskip("torch")

V, LIMIT = 40, 8
RNG = np.random.default_rng(0)
PROMPTS = [RNG.integers(3, V, length).tolist() for length in RNG.integers(2, 7, 20)]
WIDTH = max(map(len, PROMPTS))
PADDED = torch.tensor([[0] * (WIDTH - len(ids)) + ids for ids in PROMPTS])
REAL = torch.tensor([[0] * (WIDTH - len(ids)) + [1] * len(ids) for ids in PROMPTS])


@pytest.fixture(scope="module")
def models():
    ours = randomized(GPT(GPTConfig(V, 64, 16, 2, 2)), std=0.3).eval()
    theirs = as_theirs(ours)
    texts = generate(ours, PROMPTS, LIMIT)
    return ours, theirs, [texts[0][2], texts[1][5]]


def check(models, beams=1, texts=1, **options):
    """The same texts; with beams the same scores. Some end with an end token, and lengths differ."""
    ours, theirs, end = models
    if beams > 1:
        options |= {"num_beams": beams, "num_return_sequences": texts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = theirs.generate(
            PADDED, attention_mask=REAL, max_new_tokens=LIMIT, eos_token_id=end, pad_token_id=0,
            do_sample=False, return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
    found = generate(ours, PROMPTS, LIMIT, end, return_dict=True, **options)
    for ids, row in zip(found.ids, expected.sequences[:, WIDTH:].tolist(), strict=True):
        stop = min((i for i, token in enumerate(row) if token in end), default=LIMIT)
        assert ids == row[:stop]
    if beams > 1:
        np.testing.assert_allclose(found.scores, expected.sequences_scores.numpy(), atol=1e-4)
    elif not options:
        sums = theirs.compute_transition_scores(expected.sequences, expected.scores, normalize_logits=True)
        steps = np.arange(LIMIT) < np.array([[len(each)] for each in found.logprobs])
        np.testing.assert_allclose(found.scores, np.where(steps, sums.numpy(), 0).sum(1), atol=1e-4)
    assert found.finish_reasons.count("eos") > 0
    assert len({len(ids) for ids in found.ids}) > 2


@pytest.mark.parametrize("options", [{}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}], ids=str)
def test_greedy_texts_are_the_same(models, options):
    check(models, **options)


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, -0.5])
def test_beams_are_the_same(models, length_penalty, early_stopping):
    check(models, 4, 4, length_penalty=length_penalty, early_stopping=early_stopping)


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}], ids=str)
def test_beams_with_penalties_are_the_same(models, options):
    check(models, 4, **options)


def test_no_repeat_ngram_ignores_padding(models):
    """In Hugging Face's generate it is: no_repeat_ngram_size=1 forbids the padding token."""
    ours, _, end = models
    options = {"no_repeat_ngram_size": 1, "num_beams": 3}
    together = generate(ours, PROMPTS[:4], LIMIT, end, **options)
    assert together == [generate(ours, [ids], LIMIT, end, **options)[0] for ids in PROMPTS[:4]]
