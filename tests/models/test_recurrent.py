"""Recurrent models: the fixed context vector, additive and dot attention, and a recurrent language model."""

import numpy as np
import pytest

import minigrad as mg
from minitransformer import RecurrentConfig, RecurrentLM, Seq2Seq, Seq2SeqConfig, generate
from minitransformer.errors import UserError

SOURCE = np.array([[4, 5, 6, 3], [7, 3, 0, 0]])  # padded on the right with 0
TARGET = np.array([[2, 4, 5], [2, 8, 9]])
KINDS = [
    pytest.param({"rnn_type": rnn, "attention": attention, "bidirectional": both, "num_layers": layers},
                 id=f"{rnn}-{attention}-{'both' if both else 'forward'}-{layers}")
    for rnn, attention, both, layers in [
        ("rnn", "none", False, 1), ("lstm", "none", False, 2), ("gru", "none", True, 2),
        ("rnn", "additive", True, 1), ("lstm", "additive", True, 2), ("gru", "additive", False, 1),
        ("lstm", "dot", False, 2), ("gru", "dot", False, 1),
    ]
]  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


def seq2seq(**options):
    model = Seq2Seq(Seq2SeqConfig(11, embedding_dim=6, hidden_size=5, dropout=0.1, **options)).eval()
    for p in model.parameters():
        p.array *= 2  # far from uniform, so that outputs differ
    return model


def assert_close(a, b):
    np.testing.assert_allclose(a, b, atol=1e-5)


# ---------------------------------------------------------------- encoder and decoder


@pytest.mark.parametrize("both", [False, True])
def test_encoder_memory_is_one_vector_without_attention(both):
    model = seq2seq(attention="none", bidirectional=both)
    for length in (1, 7):
        assert model.encode(np.full((2, length), 4)).shape == (2, 1, 10 if both else 5)
    assert seq2seq(attention="additive").encode(SOURCE).shape == (2, 4, 10)


def test_the_fixed_context_is_the_last_encoder_state():
    model = seq2seq(attention="none", bidirectional=True)
    states, last = model.encoder(model.embedding(SOURCE[:1]))
    assert_close(
        model.encode(SOURCE[:1]).numpy()[0, 0],
        np.concatenate([states.numpy()[0, -1, :5], last.numpy()[1, 0]]),
    )


@pytest.mark.parametrize("options", [{"attention": "additive"}, {"attention": "dot", "bidirectional": False}])
def test_attention_weights_are_over_source_words(options):
    model = seq2seq(**options)
    weights = model.attention_weights(SOURCE, TARGET).numpy()
    assert weights.shape == (2, 3, 4)
    assert_close(weights.sum(-1), 1)
    assert (weights[1, :, 2:] == 0).all()
    assert weights.std() > 0.01


def test_additive_attention_matches_the_bahdanau_formula():
    model = seq2seq(attention="additive")
    memory = model.encode(SOURCE)
    keys = model.attention.keys(memory)
    s = model.first_states(memory)[0][-1].numpy()  # s_0 of each source
    w, u, v = (p.numpy() for p in (model.attention.query.weight, model.attention.key.weight,
                                   model.attention.score.weight[0]))  # fmt: skip
    expected = np.empty((2, 4))
    for b in range(2):
        energies = [v @ np.tanh(w @ s[b] + u @ memory.numpy()[b, j]) for j in range(4)]
        expected[b] = np.exp(energies) / np.exp(energies).sum()
    from minitransformer.models.seq2seq import Source

    weights = model.attention.weights(mg.tensor(s[:, None]), Source(memory, keys, None))
    assert_close(weights.numpy()[:, 0], expected)


def test_bahdanau_decoder_starts_from_the_backward_state():
    model = seq2seq(attention="additive")
    _, last = model.encoder(model.embedding(SOURCE[:1]))
    expected = np.tanh(model.start.weight.numpy() @ last.numpy()[1, 0] + model.start.bias.numpy())
    assert_close(model.first_states(model.encode(SOURCE[:1]))[0].numpy()[0, 0], expected)


@pytest.mark.parametrize("options", [{"attention": "additive"}, {"attention": "dot", "bidirectional": False}])
@pytest.mark.slow
def test_seq2seq_gradients_match_finite_differences(options):
    model = Seq2Seq(Seq2SeqConfig(7, 2, 2, **options)).to("float64").eval()
    names = [name for name, _ in model.named_parameters()]

    def loss(*values):
        weights = dict(zip(names, values, strict=True))
        return mg.nn.utils.stateless.functional_call(
            model, weights, (SOURCE[:, :2] % 7, TARGET[:, :2] % 7)
        ).sin()

    values = [mg.tensor(p.numpy(), requires_grad=True) for p in model.parameters()]
    mg.gradcheck(loss, values)


# ---------------------------------------------------------------- generation


@kinds
def test_seq2seq_generation_is_independent_of_cache_and_batch(kind):
    model = seq2seq(**kind)
    sources = [[4, 5, 6, 3], [7, 3], [8, 9, 3]]
    for beams in (1, 3):
        together = generate(model, sources, max_new_tokens=5, num_beams=beams)
        assert together == generate(model, sources, max_new_tokens=5, num_beams=beams, use_cache=False)
        assert together == [generate(model, [s], max_new_tokens=5, num_beams=beams)[0] for s in sources]
    forced = [[5], [6, 7], [8]]  # prefixes of different lengths
    results = [generate(model, sources, max_new_tokens=4, prefix=forced, use_cache=c) for c in (True, False)]
    assert results[0] == results[1]


# ---------------------------------------------------------------- the language model


@pytest.mark.parametrize("rnn_type", ["rnn", "lstm", "gru"])
def test_batched_prompts_of_unequal_lengths_match_single_ones(rnn_type):
    model = RecurrentLM(RecurrentConfig(9, 6, 6, 2, rnn_type)).eval()
    prompts = [[1, 2, 3], [4], [5, 6]]
    together = generate(model, prompts, max_new_tokens=6)
    assert together == [generate(model, [p], max_new_tokens=6, use_cache=False)[0] for p in prompts]


def test_recurrent_embeddings_are_scaled_by_sqrt_of_width():
    embedding = RecurrentLM(RecurrentConfig(9, 4, 4)).embedding
    assert_close(embedding(np.array([[3]])).numpy()[0, 0], 2 * embedding.weight.numpy()[3])


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rnn_type": "lstn"}, "unknown rnn_type 'lstn'. Did you mean lstm?"),
        ({"attention": "additve"}, "unknown attention 'additve'. Did you mean additive?"),
        ({"attention": "dot"}, "dot attention needs states of equal size, but the decoder's is 5"),
        ({"dropout": 1.0}, "dropout = 1.0 is out of range"),
        ({"num_layers": 0}, "num_layers = 0 is out of range"),
    ],
)
def test_invalid_seq2seq_options_give_a_two_line_error(options, message):
    with pytest.raises(UserError) as error:
        Seq2SeqConfig(11, **{"embedding_dim": 6, "hidden_size": 5, "dropout": 0.1, **options})
    assert str(error.value).startswith(message)
    assert len(str(error.value).splitlines()) == 2


def test_invalid_recurrent_calls_give_clear_errors():
    with pytest.raises(UserError, match="a fixed context vector has no attention weights"):
        seq2seq(attention="none").attention_weights(SOURCE, TARGET)
    with pytest.raises(UserError, match=r"equal sizes, got embedding_dim=6 and hidden_size=4"):
        RecurrentConfig(9, 6, 4)
    model = RecurrentLM(RecurrentConfig(9, 6, 6))
    cache = model.new_cache()
    model.states(np.array([[1], [2]]), cache)
    with pytest.raises(UserError, match="expected a batch of 2, as in the cache, got 1"):
        model.states(np.array([[1]]), cache)
    assert cache.length == 1
