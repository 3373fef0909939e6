"""Do errors accumulate in a model that has never read its own words, and does training on these help?

Up to the first mistake, greedy decoding predicts the same words as teacher forcing, so the fraction of
sentences without mistakes is the same. The number of wrong words shows what a mistake leads to.
"""

from collections.abc import Mapping, Sequence

import numpy as np

import minigrad as mg

from ...data.batching import Batch
from ...data.generated import reverse
from ...models.transformer import Transformer
from ...text.tokenizer import Tokenizer
from ..claim import Rule, Trial, claim
from ..translating import (
    Sentences,
    collate,
    draw,
    held_out_loss,
    minimize,
    sentences,
    size,
    token_error,
    token_loss,
    translations,
    translator,
)

STEPS = {"translation": 400, "reversal": 200}  # enough to learn the task, few enough to make some mistakes
MOST = 0.5  # at the end of training, the fraction of the decoder's words that are the model's own


def data_of(trial: Trial) -> Sentences:
    if trial.case == "translation":
        return sentences(trial.seed, longest=5)
    pairs = reverse(6000)["train"]
    tokenizer = Tokenizer.train_word([source for source, _ in pairs])
    order = np.random.default_rng(trial.seed).permutation(len(pairs))
    drawn = [(tokenizer.encode(pairs[i][0]), tokenizer.encode(pairs[i][1])) for i in order]
    return Sentences(drawn[:4000], drawn[4000:4300], [], tokenizer)


@mg.no_grad()
def with_own_words(model: Transformer, batch: Batch, part: float, random: np.random.Generator) -> Batch:
    """Replace a fraction `part` of the words that the decoder reads with the words that it predicts there.

    (Mihaylova and Martins 2019, "Scheduled Sampling for Transformers".)
    """
    own = model(batch["source"], batch["target_in"]).numpy().argmax(-1)[:, :-1]
    read = batch["target_in"].copy()
    is_word = read[:, 1:] != model.config.pad_token_id
    read[:, 1:] = np.where(is_word & (random.random(own.shape) < part), own, read[:, 1:])
    return Batch(batch, target_in=read)


def train(model: Transformer, data: Sentences, trial: Trial, steps: int) -> None:
    random, own = np.random.default_rng(trial.seed), np.random.default_rng((trial.seed, 1))
    parts = iter(np.linspace(0, MOST, steps))

    def loss() -> mg.Tensor:
        batch = draw(data, random)
        if trial.arm == "own words":
            batch = with_own_words(model, batch, next(parts), own)
        return token_loss(model, batch)

    minimize(loss, model, trial.rate, steps)


@mg.no_grad()
def after_a_mistake(model: Transformer, data: Sentences, seed: int) -> tuple[float, float]:
    """The fractions of next words that are wrong after a right word, and after the likeliest wrong word.

    One position in each sentence is tested.
    """
    random = np.random.default_rng(seed)
    batch = collate(data.held_out, data.tokenizer)
    rows = np.arange(len(data.held_out))
    places = np.array([random.integers(len(target)) for _, target in data.held_out])
    right = batch["target"][rows, places + 1]  # the word after the one at `places`, or <END>
    model.eval()
    logits = model(batch["source"], batch["target_in"]).numpy()
    after_right = logits[rows, places + 1].argmax(-1) != right
    at_place = logits[rows, places]
    at_place[rows, batch["target"][rows, places]] = -np.inf
    batch["target_in"][rows, places + 1] = at_place.argmax(-1)
    after_wrong = model(batch["source"], batch["target_in"]).numpy()[rows, places + 1].argmax(-1) != right
    model.train()
    return float(after_right.mean()), float(after_wrong.mean())


def distance(a: Sequence[int], b: Sequence[int]) -> int:
    """The Levenshtein distance: the number of words to insert, delete or replace to turn a into b."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def written_error(model: Transformer, data: Sentences) -> float:
    """The error rate of greedy translations: their `distance` to the right ones, per word with <END>."""
    written = translations(model, data.held_out, data)
    wrong = sum(distance(ids, target) for ids, (_, target) in zip(written, data.held_out, strict=True))
    return wrong / sum(len(target) + 1 for _, target in data.held_out)


@claim(
    question="Do errors accumulate in a model that has never read its own words, and does training on them "
    "help?",
    says={
        "Scheduled Sampling (Bengio et al. 2015), abstract": "This discrepancy between training and "
        "inference can yield errors that can accumulate quickly along the generated sequence.",
        "The Transformer architecture, Training the Transformer": "During training, the decoder is "
        "provided with the true output sequence, shifted by one position. [...] During inference, the "
        "decoder generates tokens step by step (autoregressively), using the previously generated tokens.",
    },
    setting="A Transformer of width 64. Own words: a fraction of the words that the decoder reads, which "
    "rises from 0 to a half, is what it would write there; that costs one more forward pass. Translation: "
    "4,000 sentences of at most 5 English words, 400 steps. Reversal: 4,000 texts of 4 to 12 letters, "
    "backwards, where it is certain what is right after a mistake; 200 steps. Own words help if they make "
    "wrong words rarer by a factor of 1.1: less than about a tenth does not count.",
    measures={
        "loss": "held-out loss with teacher forcing, nats per token",
        "forced error": "fraction of wrong next words after right words",
        "written error": "fraction of wrong words in what greedy decoding writes (edit distance)",
        "after a right word": "fraction of wrong next words after a right word",
        "after a wrong word": "the same, with the model's most likely wrong word in place of the right one",
        "parameters": "number of parameters",
    },
    arms=("teacher forcing", "own words"),
    cases=tuple(STEPS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        Rule(
            "teacher forcing: after a right word",
            "teacher forcing: after a wrong word",
            by=0.05,
            part="a mistake leads to others",
        ),
        Rule(
            "teacher forcing: forced error",
            "teacher forcing: written error",
            by=1.2,
            ratio=True,
            part="errors accumulate",
        ),
        Rule(
            "own words: written error",
            "teacher forcing: written error",
            by=1.1,
            ratio=True,
            part="own words help",
        ),
    ),
)
def exposure_bias(trial: Trial) -> Mapping[str, float]:
    data = data_of(trial)
    mg.manual_seed(trial.seed)
    model = translator(data)
    train(model, data, trial, trial.steps(STEPS[trial.case]))
    after_right, after_wrong = after_a_mistake(model, data, trial.seed)
    return {
        "loss": held_out_loss(model, data),
        "forced error": token_error(model, data.held_out, data),
        "written error": written_error(model, data),
        "after a right word": after_right,
        "after a wrong word": after_wrong,
        "parameters": size(model),
    }
