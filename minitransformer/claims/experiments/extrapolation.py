"""Do sinusoidal positions work beyond the longest training sentence?"""

from collections.abc import Mapping
from functools import cache

import numpy as np

import minigrad as mg

from ...data.phrasebook import phrasebook
from ...layers.positions import LearnedPositions, SinusoidalPositions
from ...models.transformer import Transformer
from ...text.tokenizer import Tokenizer
from .. import translating, word_before
from ..claim import Rule, Trial, claim
from ..translating import Ids, Sentences, held_out_loss, probabilities, size, translator
from ..word_before import WordBefore, spare_d_ff

LONGEST = 24  # the most words of a training sentence in the case "word before"
SHORT, LONG = 6, 8  # in translation: the most tokens of a short side, the fewest of a long one


@claim(
    question="Do sinusoidal positions extrapolate to longer sentences than those of the training?",
    says={
        "Transformers - Attention Is All You Need, Why Sinusoidal Functions?": "Unlike learned positional "
        "embeddings, sinusoidal encodings can extrapolate to sequence lengths longer than those seen during "
        "training",
        "Explain step by step ... with test data, Alternative: Learned Positional Embeddings": "Sinusoidal: "
        "Generalizes to any length",
        "Attention Is All You Need, section 3.5": "it may allow the model to extrapolate to sequence lengths "
        "longer than the ones encountered during training",
    },
    setting="Two tasks: name the word before each word of a sentence (one encoder layer of width 32, "
    "sentences of 2 to 24 words in random order, 600 steps, scored in sentences of 48 words); and translate "
    "(norm first, 3,000 pairs of at most 6 tokens in either language, 500 steps, scored on pairs of at "
    "least 8). Errors are counted at positions that did not occur in training, and compared with those in "
    "short sentences. Learned positions have vectors there, as they were initialized. A third model has "
    "sinusoidal positions and is trained with long sentences too: it shows what can be reached there, as "
    "long sentences may be harder or easier. The learning rates leave out 0.024, because some seeds fail "
    "there, and the seeds that choose the rate are not those that are compared.",
    measures={
        "loss": "held-out loss at the lengths of the training, nats per word",
        "short": "fraction of wrong words in new sentences no longer than those of the training",
        "new": "fraction of wrong words at new positions, in longer sentences",
        "lost": "new minus short",
        "parameters": "number of parameters",
    },
    arms=("sinusoidal", "learned", "trained on long ones"),
    cases=("word before", "translation"),
    rates=(6e-3, 1.2e-2, 4.8e-2),  # at 2.4e-2 some seeds learn and others do not, at 4.8e-2 none does
    rules=(
        Rule("sinusoidal: lost", "learned: lost", by=0.05, part="better than untrained vectors"),
        Rule("sinusoidal: lost", "trained on long ones: lost", by=-0.05, part="as if trained on long ones"),
    ),
)
def extrapolation(trial: Trial) -> Mapping[str, float]:
    found = {"word before": find_word_before, "translation": translate}[trial.case](trial)
    return {**found, "lost": found["new"] - found["short"]}


def find_word_before(trial: Trial) -> Mapping[str, float]:
    longest = 2 * LONGEST if trial.arm == "trained on long ones" else LONGEST
    random = np.random.default_rng(trial.seed)
    mg.manual_seed(trial.seed)
    model = word_model(trial.arm)
    word_before.train(model, random, trial.rate, trial.steps(600), (2, longest))
    return {
        "loss": word_before.held_out_loss(model, random, (2, longest)),
        "short": word_before.errors(model, random, LONGEST).mean(),
        "new": word_before.errors(model, random, 2 * LONGEST)[LONGEST - 1 :].mean(),
        "parameters": size(model),
    }


def word_model(arm: str) -> WordBefore:
    """Create a model for sentences of up to 2 LONGEST words, out of a vocabulary of 3 LONGEST words."""
    if arm == "learned":
        return WordBefore(LearnedPositions(2 * LONGEST, 32), words=3 * LONGEST)
    d_ff = 64 + spare_d_ff(2 * LONGEST * 32)  # as many parameters as with learned positions
    return WordBefore(SinusoidalPositions(32), words=3 * LONGEST, d_ff=d_ff)


def translate(trial: Trial) -> Mapping[str, float]:
    data = short_and_long(trial.seed, mixed=trial.arm == "trained on long ones")
    mg.manual_seed(trial.seed)
    model = translation_model(trial.arm, data)
    translating.train(model, data, trial.rate, trial.steps(500), trial.seed)
    return {
        "loss": held_out_loss(model, data),
        "short": errors(model, [pair for pair in data.held_out if is_short(pair)], data).mean(),
        "new": errors(model, data.longer, data, first=SHORT + 1).mean(),
        "parameters": size(model),
    }


def translation_model(arm: str, data: Sentences) -> Transformer:
    scheme = "learned" if arm == "learned" else "sinusoidal"
    return translator(data, positions=scheme, max_positions=24, norm_first=True)


def errors(model: Transformer, pairs: Ids, data: Sentences, first: int = 0) -> np.ndarray:
    """A mask of the wrong next words, at target positions from `first` on, given right previous words."""
    p, right = probabilities(model, pairs, data)
    positions = np.concatenate([np.arange(len(target) + 1) for _, target in pairs])  # the last is <END>
    return (p.argmax(-1) != right)[positions >= first]


@cache
def short_and_long(seed: int, mixed: bool) -> Sentences:
    """Draw short pairs or, if `mixed`, two thirds short and a third long pairs; and 300 more long pairs."""
    short, long, tokenizer = pool()
    random = np.random.default_rng(seed)
    short = [short[i] for i in random.permutation(len(short))]
    long = [long[i] for i in random.permutation(len(long))]
    longer, others = long[:300], long[300:1400]
    if mixed:
        return Sentences(short[200:2200] + others[:1000], short[:200] + others[1000:], longer, tokenizer)
    return Sentences(short[200:3200], short[:200], longer, tokenizer)


@cache
def pool() -> tuple[Ids, Ids, Tokenizer]:
    """Return all short pairs, all long pairs of words in short ones, and the tokenizer."""
    pairs = phrasebook().train
    tokenizer = Tokenizer.train_word([text for pair in pairs for text in pair])
    ids = [(tokenizer.encode(english), tokenizer.encode(french)) for english, french in pairs]
    short = [pair for pair in ids if is_short(pair)]
    known = {token for pair in short for side in pair for token in side}
    long = [pair for pair in ids if min(map(len, pair)) >= LONG and known.issuperset(pair[0] + pair[1])]
    return short, long, tokenizer


def is_short(pair: tuple[list[int], list[int]]) -> bool:
    return max(map(len, pair)) <= SHORT
