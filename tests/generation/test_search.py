"""Search and scoring: each option does what its formula says, whatever the model and the batch."""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minitransformer import GPT, GPTConfig, Tokenizer, Transformer, TransformerConfig, generate
from minitransformer.cli.decoding import Decoding, Search
from minitransformer.errors import UserError
from minitransformer.generation import GenerationConfig, TextStreamer, scoring, stream
from minitransformer.generation.beams import best_candidates

PROMPTS = [[1, 2, 3, 4], [5], [6, 2], [3, 3, 1]]
SOURCES = [[4, 5, 6, 3], [7, 3], [8, 8, 4, 5, 6, 7, 3], [5, 3]]


class Bigrams(nn.Module):
    """A user's own model: the next token depends on the last one only. It has no parameters."""

    is_encoder_decoder = False
    max_length = None

    def __init__(self, log_probabilities):
        super().__init__()
        self.table = np.array(log_probabilities, np.float32)
        self.config = SimpleNamespace(vocab_size=len(self.table))
        self.calls = []

    def new_cache(self, max_length=0):
        return SimpleNamespace(length=0, batch_select_indices=lambda rows: None)

    def states(self, ids, cache=None):
        self.calls.append(ids.shape)
        if cache is not None:
            cache.length += ids.shape[1]
        return mg.tensor(self.table[ids])

    def logits(self, states):
        return states


def bigrams(seed=0, V=4):
    return Bigrams(scoring.log_softmax(np.random.default_rng(seed).normal(0, 2, (V, V)).astype(np.float32)))


@pytest.fixture(scope="module")
def gpt():
    mg.manual_seed(1)
    model = GPT(GPTConfig(7, 16, 8, 2, 2)).eval()
    for p in model.parameters():
        if p.ndim == 2:
            p.array *= 10  # far from uniform, so that the text differs from position to position
    return model


@pytest.fixture(scope="module")
def translator():
    mg.manual_seed(5)
    model = Transformer(TransformerConfig(9, 8, 2, 12, 1, 1))
    for p in model.parameters():
        p.array *= 3
    return model


# ---------------------------------------------------------------- scoring

ROW = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))


def kept(scores):
    return np.isfinite(scores)[0].nonzero()[0].tolist()


def test_top_k_keeps_ties():
    assert kept(scoring.keep_top_k(ROW, 2)) == [0, 1]
    assert kept(scoring.keep_top_k(np.array([[1.0, 3, 3, 3]]), 2)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("p", "expected"), [(0.01, [0]), (0.41, [0, 1]), (0.69, [0, 1]), (0.95, [0, 1, 2, 3])]
)
def test_top_p_keeps_the_fewest_tokens_reaching_p(p, expected):
    assert kept(scoring.keep_top_p(ROW, p)) == expected
    assert kept(scoring.keep_top_p(ROW[:, ::-1], p)) == sorted(3 - i for i in expected)


@pytest.mark.parametrize(
    ("p", "expected"), [(0.2, [0, 1, 2, 3]), (0.3, [0, 1, 2]), (0.6, [0, 1]), (1.0, [0])]
)
def test_min_p_is_relative_to_the_most_likely_token(p, expected):
    assert kept(scoring.keep_min_p(ROW, p)) == expected


def test_repetition_penalty_lowers_scores_of_either_sign_once():
    scores = np.array([[2.0, -2.0, 3.0, -3.0]])
    found = scoring.penalize_repetition(scores, np.array([[-1, 0, 1, 1]]), 2.0)
    assert found.tolist() == [[1.0, -4.0, 3.0, -3.0]]


@pytest.mark.parametrize(
    ("size", "ids", "forbidden"),
    [(1, [-1, 2, 0], [0, 2]), (2, [1, 2, 1, 3, 1], [2, 3]), (3, [1, 2, 3, 1, 2], [3])],
)
def test_tokens_that_would_repeat_an_ngram_are_forbidden(size, ids, forbidden):
    scores = scoring.forbid_repeated_ngrams(ROW, np.array([ids]), size)
    assert sorted({0, 1, 2, 3} - set(kept(scores))) == forbidden


def test_rows_without_an_allowed_token_are_left_unchanged(gpt):
    assert kept(scoring.forbid_repeated_ngrams(ROW, np.array([[0, 1, 2, 3]]), 1)) == [0, 1, 2, 3]
    for options in ({}, {"num_beams": 2}, {"do_sample": True}):
        (text,) = generate(gpt, [[1]], 9, no_repeat_ngram_size=1, **options)
        assert sorted([1, *text[:6]]) == list(range(7))
        assert len(text) == 9


def test_length_penalties_match_their_formulas():
    assert scoring.length_penalty(7, 0.6) == pytest.approx(7**0.6)
    assert scoring.length_penalty(7, 0.6, "gnmt") == pytest.approx((12 / 6) ** 0.6)
    assert scoring.length_penalty(1, 0.6, "gnmt") == 1


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("vocabulary", "k"), [(3, 20), (50, 4), (1000, 8), (1001, 2), (4096, 64)])
def test_best_candidates_match_a_full_sort(vocabulary, k, beams):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 300, (4 * beams, vocabulary)).astype(np.float32) / 7
    scores = -rng.integers(0, 300, (4, beams)).astype(np.float32) / 9
    x[1, :-2] = -np.inf
    scores[2], scores[3, -1] = -1e9, -np.inf
    sums = (x.reshape(4, beams, -1) + scores[..., None]).reshape(4, -1)
    best, rows, tokens = best_candidates(x, scores, k)
    expected = np.argsort(-sums, 1, kind="stable")[:, :k]
    np.testing.assert_array_equal(best, np.take_along_axis(sums, expected, 1))
    np.testing.assert_array_equal(rows - beams * np.arange(4)[:, None], expected // vocabulary)
    np.testing.assert_array_equal(tokens, expected % vocabulary)


# ---------------------------------------------------------------- sampling

SETTINGS = [
    {"temperature": 0.6}, {"top_k": 2}, {"top_p": 0.7}, {"min_p": 0.2}, {"temperature": 2.0, "top_p": 0.8},
]  # fmt: skip


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_sampled_frequencies_match_the_distribution(options):
    """Pearson's chi-square of 4,000 draws, below the 99.9% point of 5 degrees of freedom or fewer."""
    model = bigrams(3, 6)
    n = 4000
    scores = model.table[[2]]
    for name, function in [
        ("temperature", scoring.scale_by_temperature), ("top_k", scoring.keep_top_k),
        ("top_p", scoring.keep_top_p), ("min_p", scoring.keep_min_p),
    ]:  # fmt: skip
        if name in options:
            scores = function(scores, options[name])
    expected = n * np.exp(scores[0]) / np.exp(scores[0]).sum()
    found = generate(model, [[2]] * 4, 1, do_sample=True, num_return_sequences=n // 4, seed=7, **options)
    counts = np.bincount([ids[0] for ids in found], minlength=6)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert 1 < possible.sum() <= 6
    assert ((counts - expected)[possible] ** 2 / expected[possible]).sum() < 20.5


def test_seeded_sampling_does_not_use_the_global_generator(gpt):
    texts = [generate(gpt, PROMPTS, 9, do_sample=True, seed=s) for s in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]
    mg.manual_seed(0)
    first = generate(gpt, PROMPTS, 9, do_sample=True)
    mg.manual_seed(0)
    generate(gpt, PROMPTS, 9, do_sample=True, seed=3)
    assert generate(gpt, PROMPTS, 9, do_sample=True) == first


def test_samples_of_a_row_do_not_depend_on_other_rows(gpt, translator):
    for model, inputs in ((gpt, PROMPTS), (translator, SOURCES)):
        options = {"do_sample": True, "seed": 1, "temperature": 2.0}
        assert generate(model, inputs, 9, **options)[:2] == generate(model, inputs[:2], 9, **options)


def test_return_sequences_differ_and_share_one_prompt_pass():
    model = bigrams()
    texts = generate(model, [[1, 2, 3], [2, 2, 2]], 8, do_sample=True, num_return_sequences=5, seed=0)
    assert len(texts) == 10
    assert len({tuple(text) for text in texts}) > 5
    assert model.calls == [(2, 3), *[(10, 1)] * 7]


# ---------------------------------------------------------------- batches of prompts and prefixes


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"num_beams": 3}, {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2}], ids=str
)
@pytest.mark.parametrize("limit", [4, 15])  # within the 16 positions, and beyond
def test_prompts_of_different_lengths_do_not_interact(gpt, options, limit, use_cache):
    together = generate(gpt, PROMPTS, limit, use_cache=use_cache, **options)
    assert together == [generate(gpt, [ids], limit, **options)[0] for ids in PROMPTS]


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}], ids=str)
def test_a_prefix_is_forced_and_continued(translator, options):
    free = generate(translator, SOURCES, 6, **options)
    prefixes = [[8, 8], [5], [4, 4, 4], [8]]
    forced = generate(translator, SOURCES, 6, prefix=prefixes, **options)
    assert forced != free
    assert forced == [
        generate(translator, [s], 6, prefix=p, **options)[0] for s, p in zip(SOURCES, prefixes, strict=True)
    ]
    if not options:  # the model's own beginning leads to its own text
        assert generate(translator, [SOURCES[0]], 5, prefix=free[0][:1]) == [free[0][1:]]


def test_generation_stops_at_any_end_token(gpt):
    free = generate(gpt, PROMPTS, 9)
    ends = [free[0][2], free[1][4]]
    until = lambda ids: next((i for i, token in enumerate(ids) if token in ends), 9)
    assert generate(gpt, PROMPTS, 9, ends) == [ids[: until(ids)] for ids in free]
    assert generate(gpt, PROMPTS, 9, eos_token_id=()) == free


def test_the_end_token_defaults_to_the_models_config():
    model = bigrams()
    (free,) = generate(model, [[1]], 9)
    model.config.eos_token_id = free[3]
    assert generate(model, [[1]], 9) == [free[: free.index(free[3])]]


@pytest.mark.parametrize("beams", [1, 3])
def test_stopping_criteria_see_new_tokens_and_end_a_text(gpt, beams):
    stop = lambda ids: len(ids) == 2 or sum(ids) > 12
    found = generate(gpt, PROMPTS, 9, stopping_criteria=stop, num_beams=beams, return_dict=True)
    assert set(found.finish_reasons) == {"stop"}
    assert all(stop(ids) and not stop(ids[:-1]) for ids in found.ids)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(("stop", "ends", "reason"), [
    (lambda ids: len(ids) == 3, (), "stop"),
    (lambda ids: False, (), "length"),
    (None, (), "length"),
    (lambda ids: len(ids) == 3, range(50), "eos"),
    (lambda ids: False, range(50), "eos"),
])  # fmt: skip
def test_finish_reason_is_right_for_the_last_allowed_token(gpt, beams, stop, ends, reason):
    ends = [i for i in ends if i < gpt.config.vocab_size]
    most = 1 if ends else 3
    options = {"eos_token_id": ends, "stopping_criteria": stop, "num_beams": beams}
    found = generate(gpt, PROMPTS, most, **options, return_dict=True)
    assert set(found.finish_reasons) == {reason}


# ---------------------------------------------------------------- beam search


def all_texts(model, prompt, limit, end):
    """Every text of at most `limit` tokens and its log-probability; ended ones include the end token."""
    for length in range(1, limit + 1):
        for ids in itertools.product(range(len(model.table)), repeat=length):
            if end not in ids[:-1] and (ids[-1] == end or length == limit):
                path = [prompt[-1], *ids]
                yield ids, sum(float(model.table[a, b]) for a, b in itertools.pairwise(path))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", ["huggingface", "gnmt"])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.5])
def test_enough_beams_match_an_exhaustive_search(seed, form, alpha):
    model = bigrams(seed)
    limit = 4
    end = 0
    texts = list(all_texts(model, [2], limit, end))
    scores = {ids: p / scoring.length_penalty(len(ids), alpha, form) for ids, p in texts}
    best = sorted(scores.values(), reverse=True)[:5]
    found = generate(
        model, [[2]], limit, end, num_beams=len(texts), num_return_sequences=5, return_dict=True,
        length_penalty=alpha, **({"length_penalty_form": form} if form == "gnmt" else {}),
    )  # fmt: skip
    np.testing.assert_allclose(found.scores, best, rtol=1e-5)  # several texts may be equally likely
    for ids, score, reason in zip(found.ids, found.scores, found.finish_reasons, strict=True):
        assert scores[(*ids, end) if reason == "eos" else tuple(ids)] == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_beam_search_is_independent_of_cache_and_batch(translator, early_stopping):
    ends = [ids[i] for i, ids in zip((2, 5), generate(translator, SOURCES, 9), strict=False)]
    options = {"num_beams": 4, "num_return_sequences": 4, "early_stopping": early_stopping}
    options["eos_token_id"] = ends
    together = generate(translator, SOURCES, 9, return_dict=True, **options)
    assert len({len(ids) for ids in together.ids}) > 2
    assert generate(translator, SOURCES, 9, use_cache=False, **options) == together.ids
    alone = [ids for source in SOURCES for ids in generate(translator, [source], 9, **options)]
    assert alone == together.ids


def test_encoder_memory_survives_the_end_of_another_row(translator):
    """Two sentences of one row each become one sentence of two beams: as many rows, another memory."""
    num_left = 0
    for leaving, staying in itertools.permutations(SOURCES, 2):
        ends = generate(translator, [leaving], 1, eos_token_id=[], num_beams=2, num_return_sequences=2)
        options = {"num_beams": 2, "early_stopping": True, "eos_token_id": [end for (end,) in ends]}
        found = generate(translator, [leaving, staying], 5, **options)
        assert found == [[], *generate(translator, [staying], 5, **options)]
        num_left += found[1] != []
    assert num_left > 3


def test_non_causal_models_generate_without_a_cache():
    """Each token changes the states of all others: cached ones are not valid."""
    mg.manual_seed(0)
    gpt = GPT(GPTConfig(7, 16, 8, 2, 2, is_causal=False, initializer_range=1.0))
    translator = Transformer(TransformerConfig(9, 8, 2, 12, 1, 2, is_causal=False))
    for p in translator.parameters():
        p.array *= 3
    for model, inputs in (gpt, PROMPTS), (translator, SOURCES):
        assert generate(model, inputs, 9) == generate(model, inputs, 9, use_cache=False)


def test_beams_are_sorted_and_one_beam_is_greedy(gpt):
    found = generate(gpt, PROMPTS, 6, num_beams=5, num_return_sequences=3, return_dict=True)
    scores = np.array(found.scores).reshape(-1, 3)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert generate(gpt, PROMPTS, 6, num_beams=1) == generate(gpt, PROMPTS, 6)


# ---------------------------------------------------------------- results


@pytest.mark.parametrize(
    "options", [{}, {"do_sample": True, "seed": 0, "num_return_sequences": 2}, {"num_beams": 3}], ids=str
)
def test_results_have_the_log_probability_of_each_token(gpt, options):
    """Those of the text read at once, without search or cache."""
    found = generate(
        gpt,
        PROMPTS,
        5,
        2,
        return_dict=True,
        output_probabilities=True,
        length_penalty_form="huggingface",
        **options,
    )
    copies = options.get("num_return_sequences", 1)
    for i, ids in enumerate(found.ids):
        prompt = PROMPTS[i // copies]
        ended = found.finish_reasons[i] == "eos"
        whole = [*prompt, *ids, *([2] if ended else [])]
        assert ended or len(ids) == 5
        expected = scoring.log_softmax(gpt(np.array([whole])).numpy()[0, len(prompt) - 1 : -1])
        np.testing.assert_allclose(found.probabilities[i], np.exp(expected), atol=1e-5)
        logprobs = np.take_along_axis(expected, np.array(whole[len(prompt) :])[:, None], 1)[:, 0]
        np.testing.assert_allclose(found.logprobs[i], logprobs, atol=1e-4)
        length = len(logprobs) if "num_beams" in options else 1
        assert found.scores[i] == pytest.approx(logprobs.sum() / length, abs=1e-4)


def test_the_beam_tree_contains_every_returned_text(translator):
    found = generate(
        translator, SOURCES, 9, num_beams=3, num_return_sequences=3, return_dict=True, output_beams=True
    )
    for i, tree in enumerate(found.beams):
        texts = set()
        for depth, step in enumerate(tree):
            assert (np.diff(step.scores) <= 0).all()
            for node in step.ended.nonzero()[0]:
                path = []
                at = int(node)
                for above in tree[depth::-1]:
                    path.append(int(above.tokens[at]))
                    at = int(above.parents[at])
                texts.add(tuple(token for token in path[::-1] if token != 3))
        assert texts >= {tuple(ids) for ids in found.ids[3 * i : 3 * i + 3]}


def test_empty_prompts_and_zero_new_tokens_give_empty_results(gpt):
    empty = generate(gpt, [], return_dict=True, num_beams=2, output_beams=True, output_probabilities=True)
    assert empty.ids == empty.scores == empty.probabilities == empty.beams == []
    none = generate(gpt, PROMPTS, 0, return_dict=True, num_beams=2, num_return_sequences=2)
    assert none.ids == [[]] * 8
    assert none.finish_reasons == ["length"] * 8


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("length", [0, 1])
def test_each_new_token_has_a_row_of_probabilities(gpt, beams, length):
    found = generate(gpt, PROMPTS[:2], length, return_dict=True, num_beams=beams, output_probabilities=True)
    assert [each.shape for each in found.probabilities] == [(length, gpt.config.vocab_size)] * 2


@pytest.mark.parametrize(
    "options",
    [{}, {"do_sample": True}, {"do_sample": True, "top_k": 2, "top_p": 0.5}, {"num_beams": 2}],
    ids=str,
)
def test_nan_logits_are_an_error(options):
    model = bigrams()
    model.table[1, 3] = np.nan
    assert generate(model, [[2]], 1, **options)
    with pytest.raises(mg.NonFiniteError, match="logits of the next token are NaN"):
        generate(model, [[2], [1]], 1, **options)


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "seed": 2, "num_return_sequences": 2}], ids=str)
def test_stream_yields_the_texts_of_generate(gpt, options):
    texts = generate(gpt, PROMPTS, 9, eos_token_id=2, **options)
    steps = list(stream(gpt, PROMPTS, max_new_tokens=9, eos_token_id=2, **options))
    assert [[step[i] for step in steps if step[i] is not None] for i in range(len(texts))] == texts


def test_stream_restores_training_mode_between_steps(gpt):
    gpt.train()
    try:
        steps = stream(gpt, [[1, 2]], max_new_tokens=5)
        for _ in steps:
            assert gpt.training
            assert mg.is_grad_enabled()
    finally:
        gpt.eval()


TEXT = "L'été, on dit « zut ! » — (ça va?) naïve façade… 日本語 🙂🙂 don't\n\nend of  it."


@pytest.mark.parametrize("layout", ["word", "bpe", "byte bpe", "char"])
def test_streamed_pieces_join_to_the_decoded_text(layout):
    """Also of tokens in an order that no text has, with parts of characters."""
    if layout == "char":
        tokenizer = Tokenizer.train_char([TEXT])
    elif layout == "word":
        tokenizer = Tokenizer.train_word([TEXT])
    else:
        tokenizer = Tokenizer.train_bpe([TEXT], 280 if layout == "byte bpe" else 300)
    rng = np.random.default_rng(0)
    prompt, written = tokenizer.encode("L'été"), tokenizer.encode(TEXT)
    for ids in (
        written,
        written * 8,
        *(rng.integers(4, tokenizer.vocab_size, 300).tolist() for _ in range(5)),
    ):
        text = TextStreamer(tokenizer.decode, prompt)
        pieces = [text.put(token) for token in ids]
        whole = tokenizer.decode([*prompt, *ids]).removeprefix(tokenizer.decode(prompt))
        assert "".join([*pieces, text.end()]) == whole
        assert sum(map(bool, pieces)) > len(pieces) / 4


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("flags", [Search, Decoding])
def test_num_beams_is_checked_before_it_is_used(flags):
    with pytest.raises(UserError, match="num_beams = 0 is out of range"):
        flags(num_beams=0).options()


REFUSED = [
    ({"max_new_tokens": -1}, "max_new_tokens = -1 is out of range"),
    ({"max_new_tokens": 1.5}, "max_new_tokens must be an integer, got 1.5"),
    ({"do_sample": True, "top_k": 0}, "top_k = 0 is out of range.\nChoose a value >= 1"),
    ({"do_sample": True, "top_k": 2.0}, "top_k must be an integer or None, got 2.0"),
    ({"temperature": 0.0}, "temperature must be a finite number above 0, got 0.0"),
    ({"temperature": np.nan}, "temperature must be a finite number above 0, got nan"),
    ({"temperature": "warm"}, "temperature must be a number, got 'warm'"),
    ({"num_beams": 0}, "num_beams = 0 is out of range"),
    ({"num_beams": 2.0}, "num_beams must be an integer, got 2.0.\nPass one, or leave it out: the "),
    ({"do_sample": True, "top_p": 2}, "top_p = 2 is out of range.\nChoose a number above 0 and at most 1"),
    ({"do_sample": True, "min_p": -0.1}, "min_p = -0.1 is out of range"),
    ({"repetition_penalty": 0}, "repetition_penalty = 0 is out of range"),
    ({"num_beams": 2, "length_penalty": np.inf}, "length_penalty = inf is out of range"),
    ({"num_beams": 2, "length_penalty_form": "wu"}, "unknown length_penalty_form 'wu'.\nChoose one of "),
    ({"num_beams": 2, "early_stopping": "always"}, "unknown early_stopping 'always'.\nChoose one of True, F"),
    ({"num_beams": 2, "early_stopping": 1}, "early_stopping must be True or False or a string, got 1"),
    ({"do_sample": "yes"}, "do_sample must be True or False, got 'yes'"),
    ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size = -1 is out of range"),
    ({"num_return_sequences": 2}, "greedy decoding gives 1"),
    ({"num_return_sequences": 3, "num_beams": 2}, "num_return_sequences = 3, but 2 beams give 2"),
    ({"do_sample": True, "num_beams": 2}, "num_beams = 2 cannot be combined with do_sample"),
    ({"top_p": 0.9}, "top_p = 0.9 has no effect without sampling"),
    ({"length_penalty": 2.0}, "length_penalty = 2.0 has no effect without beam search"),
    ({"seed": 1}, "seed = 1 has no effect without sampling"),
    ({"do_sample": True, "seed": -1}, "seed = -1 is out of range"),
    ({"stopping_criteria": 5}, "stopping_criteria must be a function, got 5"),
    ({"num_beam": 4}, "generate has no option 'num_beam'. Did you mean num_beams?"),
    ({"generation_config": GenerationConfig()}, "generate takes its options as keyword arguments, got a"),
    ({"prefix": [1]}, "a GPT continues its prompt and takes no prefix"),
]  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_refused(gpt, options, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        generate(gpt, [[1]], **options)
    assert str(caught.value).count("\n") == 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ([9], "prefix has the id 9"),
        ([[1], [-1]], "prefix[1] has the id -1"),
        (3, "prefix must be a list of ids, or one for each input, got 3"),
        ([1.5], "1 prefix for 2 inputs"),
        ([1.5, 2], "prefix[0] is not a sequence of integers, got 1.5"),
    ],
)
def test_invalid_prefixes_are_rejected(translator, prefix, message):
    with pytest.raises(UserError, match=re.escape(message)):
        generate(translator, SOURCES[:2], prefix=prefix)


def test_unsupported_search_options_are_rejected_immediately(gpt, translator):
    with pytest.raises(UserError, match="an input has only 4 texts"):
        generate(bigrams(), [[1]], 1, num_beams=9, num_return_sequences=9)
    with pytest.raises(UserError, match="not known before its end"):
        stream(gpt, [[1]], num_beams=2)
    with pytest.raises(UserError, match="stream has no option 'return_dict'"):
        stream(gpt, [[1]], return_dict=True)
    with pytest.raises(UserError, match="output_probabilities has no effect in stream"):
        stream(gpt, [[1]], output_probabilities=True)
    with pytest.raises(UserError, match="takes no prefix"):
        stream(gpt, [[1]], prefix=[1])
    with pytest.raises(UserError, match="prefix has the id 999"):
        stream(translator, SOURCES, prefix=[999])
    with pytest.raises(UserError, match="eos_token_id = 999 is out of range"):
        stream(gpt, [[1]], eos_token_id=999)
    short = Transformer(TransformerConfig(9, 8, 2, 12, 1, 1, positions="learned", max_positions=4))
    assert generate(short, [[4, 3]], prefix=[4, 4, 4]) == [[]]
    with pytest.raises(UserError, match="a prefix of 4 tokens is too long: the model has 4 positions"):
        stream(short, [[4, 3]], prefix=[4, 4, 4, 4])


# ---------------------------------------------------------------- the command line


def test_decoding_flags_reach_the_search(cli, here):
    code, out, err = cli("translate", "mine", "I love you", "--num-beams", 3, "--num-return-sequences", 3)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 3
    flags = ["--prompt", "ROMEO:", "--max-new-tokens", 9]
    outs = [
        cli("generate", "play", *flags, *more)[1]
        for more in (["--top-k", 1], ["--greedy"], ["--top-p", 1e-6])
    ]
    assert outs[0] == outs[1] == outs[2]
    assert cli("generate", "play", *flags, "--num-beams", 2)[0] == 0
    code, out, err = cli("generate", "play", "--top-p", 2)
    assert (code, out) == (2, "")
    assert err == "error: top_p = 2.0 is out of range.\nChoose a number above 0 and at most 1.\n"
