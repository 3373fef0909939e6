# ruff: noqa: E501
"""Recurrent models and attention: the fixed context vector, and what a layer costs."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import minigrad as mg
from minigrad import nn

from ...layers.attention import MultiHeadAttention
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


def seconds_of(compute: Callable[[], Any], repeats: int) -> float:
    """The shortest of several times, of the processor."""
    compute()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        compute()
        times.append(time.process_time() - start)
    return min(times)


@claim(
    question="Is a self-attention layer faster than a recurrent one where the text is shorter than the width?",
    says={
        "Attention Is All You Need, section 4": "self-attention layers are faster than recurrent layers when the "
        "sequence length n is smaller than the representation dimensionality d",
    },
    setting="Forward and backward of self-attention with 4 heads, and of a GRU, batch 4, on one core: "
    "n is 32 and d 256, and the other way round, n = 1024 and d = 32.",
    measures={"seconds": "seconds of processor time", "parameters": "number of parameters"},
    arms=("self-attention", "recurrent"),
    cases=("n < d", "n > d"),
    rules=(
        Rule("self-attention: seconds", "recurrent: seconds", by=1.2, ratio=True, case="n < d"),
        Rule("recurrent: seconds", "self-attention: seconds", by=1.2, ratio=True, case="n > d"),
    ),
    is_timed=True,
)
def shorter_than_wide(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    n, d = {"n < d": (32, 256), "n > d": (1024, 32)}[trial.case]
    layer = MultiHeadAttention(d, 4) if trial.arm == "self-attention" else nn.GRU(d, d, batch_first=True)
    x = mg.randn(4, n, d, requires_grad=True)

    def step() -> None:
        out = layer(x)
        out = out[0] if isinstance(out, tuple) else out
        out.sum().backward()

    return {"seconds": seconds_of(step, trial.steps(10)), "parameters": size(layer)}
