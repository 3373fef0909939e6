"""Do heads specialise, each in a different relation?

A different head is chosen for each relation. How much more it attends to that relation than the average head
is measured on other sentences than those on which it was chosen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import minigrad as mg

from ...data.batching import pad_rows
from ...inspection.heads import HeadScores, score_heads
from ...inspection.recording import record_attention
from ...layers.attention import MultiHeadAttention
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..three_relations import LETTERS, NAMES, OneLayer, held_out, layer_scores, train_layer
from ..translating import Ids, Sentences, held_out_loss, sentences, size, train, translator

TRANSLATION = "translation"
RELATIONS = {
    "three relations": NAMES,
    TRANSLATION: ["previous token", "next token", "punctuation", "rare words"],
}


@claim(
    question="Do heads specialise, each in a relation of its own?",
    says={
        "Attention Is All You Need, figure 5": "The heads clearly learned to perform different tasks.",
        "Explain step by step ... with test data, What Heads Learn": "Studies analyzing trained Transformers "
        "found heads specialize in: [...] Previous/next token [...] Rare words [...] Sentence boundaries "
        "[...] This specialization emerges automatically — not programmed!",
        "Transformers - Attention Is All You Need, Why Transformers Work So Well": "Different heads learn "
        "different relationship types (syntax, semantics, coreference, etc.) simultaneously.",
    },
    setting="Three relations: one attention layer of width 48 with 4 heads, whose tokens each have to name "
    "the colours of three others; 500 steps. Translation: the 8 heads of the encoder of a translator of "
    "width 64 with two layers per side, on 4,000 sentences of at most 8 English words; 1,000 steps. Each "
    "relation gets another head, chosen on 300 sentences and measured on 300 others. Translation: they are "
    "chosen on training data; rare words occur fewer than 10 times in it. Three relations: both are new "
    "sentences. Untrained models are those that training begins with; no learning rate changes them, so "
    "their losses are equal at all rates. A head has to pay a quarter of its attention more to its relation "
    "than in the untrained model, each compared with the mean head; less than a quarter does not count.",
    measures={
        "loss": "held-out loss, nats per colour or token",
        "parameters": "number of parameters",
        **{
            relation: f"fraction of attention that its head pays to {keys}, less that of the mean head"
            for relation, keys in {
                "previous token": "the previous token", "next token": "the next token",
                "same word": "the same word elsewhere", "punctuation": "punctuation and ends",
                "rare words": "rare words",
            }.items()
        },
    },
    arms=("trained", "untrained"),
    cases=tuple(RELATIONS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=tuple(  # a quarter of a head's attention
        Rule(f"untrained: {relation}", f"trained: {relation}", by=0.25, case=case, part=relation)
        for case, relations in RELATIONS.items()
        for relation in relations
    ),
)  # fmt: skip
def heads_specialise(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    is_trained = trial.arm == "trained"
    if trial.case == TRANSLATION:
        data = sentences(trial.seed)
        model: Any = translator(data)
        if is_trained:
            train(model, data, trial.rate, trial.steps(1000), trial.seed)
        known, others = (encoder_scores(model, data, pairs) for pairs in (data.train[:300], data.held_out))
        loss = held_out_loss(model, data)
    else:
        model = OneLayer(48, MultiHeadAttention(48, 4))
        if is_trained:
            train_layer(model, trial.rate, trial.steps(500), trial.seed)
        known, others = (attention_scores(model, seed) for seed in (trial.seed, trial.seed + 10_000))
        loss = layer_scores(model, trial.seed)["loss"]
    found = {"loss": loss, "parameters": size(model)}
    heads = own_heads(known, RELATIONS[trial.case])
    return found | {name: above_mean(others, name)[head] for name, head in heads.items()}


def attention_scores(model: OneLayer, seed: int) -> HeadScores:
    letters, colours = held_out(seed)
    with mg.no_grad(), record_attention(model) as maps:
        model(letters, colours)
    return score_heads(maps, LETTERS[letters].tolist())


def encoder_scores(model: Transformer, data: Sentences, pairs: Ids) -> HeadScores:
    tokens = data.tokenizer.id_to_token
    counts = Counter(tokens[i] for source, _ in data.train for i in source)
    sources = [[*source, data.tokenizer.end_id] for source, _ in pairs]
    with mg.no_grad(), record_attention(model) as maps:
        model.encode(pad_rows(sources, data.tokenizer.pad_id))
    words = [[tokens[i] for i in source] for source in sources]
    return score_heads(maps, words, "encoder.*self_attention", counts=counts)


def own_heads(scores: HeadScores, relations: Sequence[str]) -> dict[str, int]:
    """Assign a different head to each relation, the largest scores above the mean over heads first."""
    table = {(r, head): value for r in relations for head, value in enumerate(above_mean(scores, r))}
    found: dict[str, int] = {}
    for relation, head in sorted(table, key=table.__getitem__, reverse=True):
        if relation not in found and head not in found.values():
            found[relation] = head
    return found


def above_mean(scores: HeadScores, relation: str) -> np.ndarray:
    """The score of each head in a relation, minus the mean score of all heads."""
    return scores.of(relation) - scores.of(relation).mean()
