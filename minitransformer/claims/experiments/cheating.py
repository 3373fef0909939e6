"""Does a decoder that sees the next word in training copy it, instead of learning to write?"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg

from ...data.batching import collate
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import (
    Sentences,
    held_out_loss,
    sentence_error,
    sentences,
    size,
    token_error,
    train,
    translator,
)


@mg.no_grad()
def copied(model: Transformer, data: Sentences, seed: int) -> float:
    """The fraction of positions at which the model predicts a wrong next word that was put there."""
    random = np.random.default_rng(seed)
    batch = collate(data.held_out, data.tokenizer)
    words = [word for _, french in data.train for word in french]  # frequent words are drawn more often
    rows = np.arange(len(data.held_out))
    places = np.array([random.integers(len(french)) for _, french in data.held_out])
    put = random.choice(words, len(rows))
    batch["target_in"][rows, places + 1] = put  # position 0 has <START>
    model.eval()
    said = model(batch["source"], batch["target_in"]).numpy().argmax(-1)[rows, places]
    model.train()
    is_other = put != batch["target"][rows, places]
    return float((said == put)[is_other].mean())


@claim(
    question="Does a decoder without a causal mask copy the next word, and not learn to write?",
    says={
        "Transformer Network, The Problem: Preventing Cheating": 'The model could just COPY "t\'" from the '
        "input! It learns nothing useful.",
        "The Transformer Blueprint, Masked Multi-Head Attention": "It won't learn to *generate* the words; "
        "it'll just learn to copy what it already sees.",
    },
    setting="A translator on 4,000 sentences of at most 5 English words, 1,000 steps, with the causal mask "
    "and without. Without it, generation computes the states of all words again after each word.",
    measures={
        "loss": "held-out loss with teacher forcing, nats per token",
        "word error": "fraction of wrong next words with teacher forcing",
        "copied": "fraction of places at which it says the word ahead, after another one was put there",
        "error": "fraction of sentences that are not translated word for word",
        "parameters": "number of parameters",
    },
    arms=("masked", "not masked"),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        # more often than not; the masked model does not see the next word, so it only predicts it by chance
        Rule("masked: copied", "not masked: copied", by=0.5, part="copies"),
        # half of all sentences, so the masked model must translate at least as many
        Rule("masked: error", "not masked: error", by=0.5, part="cannot write"),
    ),
)
def cheating(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed, longest=5)
    mg.manual_seed(trial.seed)
    model = translator(data, is_causal=trial.arm == "masked")
    train(model, data, trial.rate, trial.steps(1000), trial.seed)
    return {
        "loss": held_out_loss(model, data),
        "word error": token_error(model, data.held_out, data),
        "copied": copied(model, data, trial.seed),
        "error": sentence_error(model, data.held_out, data),
        "parameters": size(model),
    }
