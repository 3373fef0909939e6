# ruff: noqa: E501
"""Recurrent models and attention: the fixed context vector."""

from collections.abc import Mapping

import minigrad as mg

from ...models.seq2seq import Seq2Seq, Seq2SeqConfig
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, token_error, train


@claim(
    question="Is a fixed context vector a bottleneck, the more so the longer the sentence?",
    says={
        "Transformers - Attention Is All You Need, The Full Journey": "Seq2Seq: fixed context vector bottleneck",
        "Bahdanau et al. 2015, section 1": "the performance of a basic encoder-decoder deteriorates rapidly as the "
        "length of an input sentence increases",
    },
    setting="A GRU encoder-decoder on 4,000 sentences of at most 10 English words, 400 steps, with additive attention "
    "and with a fixed context vector of a larger decoder, which makes the parameters equal.",
    measures={
        "loss": "held-out loss, nats a token",
        "short": "wrong next words in sentences of up to 5 words, a fraction",
        "long": "wrong next words in sentences of 8 words and more, a fraction",
        "lost": "long minus short",
        "parameters": "number of parameters",
    },
    arms=("attention", "fixed"),
    rates=(1e-3, 3e-3, 6e-3),
    rules=(
        Rule("attention: long", "fixed: long", by=0.02),
        Rule("attention: lost", "fixed: lost", by=0.02),
    ),
)
def fixed_context(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed, longest=10)
    mg.manual_seed(trial.seed)
    attention, width = {"attention": ("additive", 64), "fixed": ("none", 73)}[trial.arm]
    config = Seq2SeqConfig(
        data.tokenizer.vocab_size, embedding_dim=64, hidden_size=width, attention=attention, dropout=0.0,
    )  # fmt: skip
    model = Seq2Seq(config)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    short = [pair for pair in data.held_out if len(pair[0]) <= 5]
    long = [pair for pair in data.held_out if len(pair[0]) >= 8]
    found = {"short": token_error(model, short, data), "long": token_error(model, long, data)}
    return {
        "loss": held_out_loss(model, data), **found, "lost": found["long"] - found["short"], "parameters": size(model),
    }  # fmt: skip
