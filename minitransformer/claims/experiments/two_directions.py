"""Does a model that reads in both directions understand more than one that reads from left to right?"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import minigrad as mg

from ...data.batching import IGNORE
from ...models.bert import BERT
from ..claim import Rule, Trial, claim
from ..reading import Batch, Read, Texts, masked_words, pad, reader, scores, texts, train, with_object
from ..translating import size

STEPS = {"missing words": 1000, "entities": 300, "types of objects": 300}
Question = Callable[[Sequence[Read], np.random.Generator], Batch]


def model_of(trial: Trial, data: Texts) -> BERT:
    head = "masked_lm" if trial.case == "missing words" else "token_classification"
    labels = {"missing words": 1, "entities": len(data.tags), "types of objects": len(data.objects)}
    model = reader(data, head, labels[trial.case])
    if trial.arm == "left side":
        for layer in model.encoder.layers:
            layer.is_causal = True
    return model


def question_of(trial: Trial, data: Texts) -> Question:
    """Return the function that makes a training batch from sentences."""

    def missing_words(rows: Sequence[Read], random: np.random.Generator) -> Batch:
        if trial.arm == "both sides":
            return masked_words(data, rows, random)
        return pad(data, [row.ids[:-1] for row in rows], [row.ids[1:] for row in rows])  # the next word

    def entities(rows: Sequence[Read], _: np.random.Generator) -> Batch:
        return pad(data, [row.ids for row in rows], [[IGNORE, *row.tags, IGNORE] for row in rows])

    def types_of_objects(rows: Sequence[Read], _: np.random.Generator) -> Batch:  # predicted at <END>
        return pad(
            data, [row.ids for row in rows], [[IGNORE] * (len(row.ids) - 1) + [row.object] for row in rows]
        )

    return {"missing words": missing_words, "entities": entities, "types of objects": types_of_objects}[
        trial.case
    ]


def each_word(data: Texts, rows: Sequence[Read], both_sides: bool) -> Batch:
    """Make a batch in which each word of each sentence is predicted once.

    If `both_sides` is True, the word is masked; otherwise, it is predicted from the words before it.
    """
    if not both_sides:
        return pad(data, [row.ids[:-1] for row in rows], [[*row.ids[1:-1], IGNORE] for row in rows])
    ids, asked = [], []
    for row in rows:
        for place in range(1, len(row.ids) - 1):
            ids.append([data.mask_id if i == place else word for i, word in enumerate(row.ids)])
            asked.append([word if i == place else IGNORE for i, word in enumerate(row.ids)])
    return pad(data, ids, asked)


@claim(
    question="Does a model that reads in both directions understand more than one that reads from the left?",
    says={
        "BERT (Devlin et al. 2018), section 3.1": "Intuitively, it is reasonable to believe that a deep "
        "bidirectional model is strictly more powerful than either a left-to-right model or the shallow "
        "concatenation of a left-to-right and a right-to-left model.",
        "The Transformer architecture, Variants and Extensions of Transformers": "BERT uses the "
        "Transformer encoder stack and is trained to predict masked tokens, making it well-suited for "
        "tasks requiring deep understanding of language context.",
    },
    setting="Two layers of width 64 on 4,000 English sentences, with and without a causal mask. Missing "
    "words: each word of 300 other sentences, after 1,000 steps on masked words, 30% of them, or on every "
    "next word. Entities: the tag of each word, such as B-animal, after 300 steps. Types of objects: one "
    "class for each sentence, predicted from the state of its last token, so that both models have read all "
    "of it; 300 steps. Only there have both read the same when they answer: for missing words and entities, "
    '"understands more" is "sees more", namely the words to the right.',
    measures={
        "loss": "held-out loss, nats",
        "error": "fraction of held-out words, tags or classes that are wrong",
        "parameters": "number of parameters",
    },
    arms=("both sides", "left side"),
    cases=tuple(STEPS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(Rule("both sides: error", "left side: error", by=0.02),),
)
def two_directions(trial: Trial) -> Mapping[str, float]:
    data = texts(trial.seed)
    mg.manual_seed(trial.seed)
    model = model_of(trial, data)
    question = question_of(trial, data)
    rows, others = data.train, data.held_out
    if trial.case == "types of objects":
        rows, others = with_object(rows), with_object(others)
    train(model, rows, question, trial.rate, trial.steps(STEPS[trial.case]), trial.seed)
    if trial.case == "missing words":
        asked = each_word(data, others[:300], trial.arm == "both sides")
    else:
        asked = question(others[:1000], np.random.default_rng(trial.seed))
    return {**scores(model, asked), "parameters": size(model)}
