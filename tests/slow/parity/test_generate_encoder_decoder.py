"""Greedy and beam search of encoder-decoders against Hugging Face's `generate`, with the same weights."""

import numpy as np
import pytest

from minitransformer import generate, record_attention

from . import test_bart, test_t5

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

LIMIT = 12  # tokens
RNG = np.random.default_rng(3)
SOURCES = [RNG.integers(3, test_bart.V, length).tolist() for length in RNG.integers(1, 10, 20)]
PAIRS = {  # our model and theirs, and end tokens that texts of different lengths end with
    "T5": lambda: (*test_t5.pair(std=0.4, tie_word_embeddings=False), [1, 4]),
    "BART": lambda: (*test_bart.pair(std=0.5), [2, 4]),
}


@pytest.fixture(scope="module", params=PAIRS)
def models(request):
    return PAIRS[request.param]()


def their_generate(theirs, end, **options):
    """Their texts without the start token and what follows the end, and the result."""
    pad = theirs.config.pad_token_id
    source = np.full((len(SOURCES), max(map(len, SOURCES))), pad)
    for row, ids in zip(source, SOURCES, strict=True):
        row[: len(ids)] = ids
    result = theirs.generate(
        torch.tensor(source), attention_mask=torch.tensor(source != pad), max_new_tokens=LIMIT,
        eos_token_id=end, do_sample=False, return_dict_in_generate=True, output_scores=True, **options,
    )  # fmt: skip
    texts = []
    for row in result.sequences[:, 1:].tolist():
        ends = [i for i, token in enumerate(row) if token in end]
        texts.append(row[: ends[0]] if ends else row)
    return texts, result


OPTIONS = pytest.mark.parametrize(
    "options", [{}, {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3}], ids=["plain", "penalties"]
)


@OPTIONS
def test_greedy_search_gives_the_same_tokens(models, options):
    ours, theirs, end = models
    expected, _ = their_generate(theirs, end, **options)
    assert len({len(ids) for ids in expected}) > 2
    assert generate(ours, SOURCES, LIMIT, end, **options) == expected


@OPTIONS
@pytest.mark.parametrize("length_penalty", [1.0, 0.6])
def test_beam_search_gives_the_same_tokens_and_scores(models, options, length_penalty):
    ours, theirs, end = models
    options = {**options, "num_beams": 4, "length_penalty": length_penalty, "num_return_sequences": 2}
    expected, result = their_generate(theirs, end, **options)
    given = generate(ours, SOURCES, LIMIT, end, return_dict=True, **options)
    assert given.ids == expected
    np.testing.assert_allclose(given.scores, result.sequences_scores.numpy(), rtol=0, atol=1e-4)


def test_attention_of_generated_texts_matches_transformers(models):
    ours, theirs, end = models
    given = generate(ours, SOURCES[:3], LIMIT, end, num_beams=2)
    theirs.set_attn_implementation("eager")
    for source, text in zip(SOURCES, given, strict=False):
        target = [ours.decoder_start_token_id, *text]
        with record_attention(ours) as maps:
            ours(np.array([source]), np.array([target]))
        expected = theirs(
            torch.tensor([source]), decoder_input_ids=torch.tensor([target]), output_attentions=True
        )
        names = {
            "encoder.layers.{}.self_attention": expected.encoder_attentions,
            "decoder.layers.{}.self_attention": expected.decoder_attentions,
            "decoder.layers.{}.cross_attention": expected.cross_attentions,
        }
        both = [(name.format(i), x[0]) for name, layers in names.items() for i, x in enumerate(layers)]
        assert maps.keys() == {name for name, _ in both}
        for name, x in both:
            weights = maps[name].numpy()[0]
            np.testing.assert_allclose(weights, x.detach().numpy(), rtol=0, atol=1e-5, err_msg=name)
