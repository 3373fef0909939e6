"""Do lower layers represent local properties, and higher layers global ones? Probes of an encoder."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

import minigrad as mg

from ...data.batching import collate
from ...data.phrasebook import NEGATION, QUESTION, Sentence, phrasebook, tokens_of
from ...inspection.probes import held_out_accuracy
from ...inspection.states import layer_states
from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, pool, token_error, train, translator

DEPTH = 6


def last_place(sentence: Sentence) -> int:
    """The index of the last word, counted from 0. A final "." or "?" is not a word."""
    tokens = tokens_of(sentence[0])
    return len(tokens) - 1 - (tokens[-1] in ".?")


def word_before(sentence: Sentence) -> str:
    """The second last word, in lower case."""
    return tokens_of(sentence[0])[last_place(sentence) - 1].lower()


def is_past(sentence: Sentence) -> bool:
    return sentence.verb[0] in ("did", "was", "were")


GLOBAL = {
    "past": is_past,
    "negation": lambda sentence: sentence.mode == NEGATION,
    "question": lambda sentence: sentence.mode == QUESTION,
}


def draw_sentences(seed: int) -> tuple[Sentences, list[Sentence]]:
    """Draw pairs for the translator, and up to 3,000 other sentences for the probes.

    The latter have at least five words, and their second last word is one of the twenty most common ones.
    """
    _, _, tokenizer = pool(8)
    short = [pair for pair in phrasebook().train if pair.mode and len(pair[0].split()) <= 8]
    drawn = [short[i] for i in np.random.default_rng(seed).permutation(len(short))]
    ids = [(tokenizer.encode(english), tokenizer.encode(french)) for english, french in drawn[:4300]]
    probed = [sentence for sentence in drawn[4300:] if last_place(sentence) >= 4]
    common = dict(Counter(map(word_before, probed)).most_common(20))
    probed = [sentence for sentence in probed if word_before(sentence) in common]
    return Sentences(ids[:4000], ids[4000:], [], tokenizer), probed[:3000]


def last_states(model: Transformer, data: Sentences, probed: Sequence[Sentence]) -> list[np.ndarray]:
    """Return the vectors (N, D) of the last words: at the encoder's input, then after each layer."""
    pairs = [(data.tokenizer.encode(english), data.tokenizer.encode(french)) for english, french in probed]
    batch = collate(pairs, data.tokenizer)
    with mg.no_grad():
        states = layer_states(model, batch["source"], batch["target_in"])
    rows, places = np.arange(len(probed)), np.array([last_place(sentence) for sentence in probed])
    return [
        x.numpy()[rows, places].astype(np.float64) for name, x in states.items() if name.startswith("encoder")
    ]


def accuracies(states: Sequence[np.ndarray], labels: Sequence[object]) -> Float[np.ndarray, " L"]:
    """The accuracy of a linear probe of each layer, on a held-out quarter of the sentences."""
    names, y = np.unique(np.array(labels), return_inverse=True)
    is_held_out = np.arange(len(y)) % 4 == 0
    return np.array([held_out_accuracy(x, y, len(names), is_held_out) for x in states])


def mean_layer(accuracy: Float[np.ndarray, " L"]) -> float:
    """The mean layer at which accuracy is gained, weighted by each layer's gain over the best previous one.

    NaN if no layer gains anything.
    """
    gains = np.diff(np.maximum.accumulate(accuracy))
    return float(gains @ np.arange(1, len(accuracy)) / gains.sum()) if gains.any() else math.nan


@claim(
    question="Do lower layers of an encoder learn what is local, and higher layers what is global?",
    says={
        "Transformers - Attention Is All You Need, Stacking Encoder Layers": "Lower layers tend to capture "
        "local/syntactic features, while higher layers capture global/semantic features.",
        "Transformer Network, What Happens in Each Layer, Layer 1 (Early)": "Local word relationships",
        "Transformer Network, What Happens in Each Layer, Layer 4-6 (Late)": "Full sentence semantics",
    },
    setting="A translator whose encoder has six layers (norm first), trained on 4,000 sentences of at most 8 "
    "English words for 1,000 steps at a learning rate of 0.003, and one that is not trained: its layers mix "
    "words, too, so the same is measured for it. After each layer, linear probes tell from the vector of a "
    "sentence's last word the word before it (one of twenty), which is local; and whether the sentence is "
    "in the past, is a negation, is a question, which is global, as the sentence has five words or more. "
    "They learn on three quarters of up to 3,000 other sentences, and are measured on the rest. A property's "
    "layer is where its accuracy is gained, on average: each layer counts by what it adds to the best "
    "accuracy before it.",
    measures={
        "error": "fraction of wrong next words of the translator with teacher forcing",
        "first error": "fraction of wrong answers of the probes for global properties after the first layer",
        "last error": "the same, after the last layer",
        "global gain": "first error - last error",
        "global layer": "the layer of the global properties, as defined above, from 0 to 6",
        "local layer": "the layer of the word before",
        "lag": "global layer - local layer, in layers",
    },
    arms=("trained", "not trained"),
    rules=(
        Rule(
            "trained: last error", "trained: first error", by=0.05, part="global properties grow with depth"
        ),
        Rule("not trained: global gain", "trained: global gain", by=0.05, part="this growth is learned"),
        Rule("trained: local layer", "trained: global layer", by=0.5, part="local ones come earlier"),
        Rule("not trained: lag", "trained: lag", by=0.5, part="this order is learned"),
    ),
)
def probes(trial: Trial) -> Mapping[str, float]:
    data, probed = draw_sentences(trial.seed)
    probed = probed[: max(200, trial.steps(3000))]
    mg.manual_seed(trial.seed)
    model = translator(data, num_encoder_layers=DEPTH, num_decoder_layers=1, norm_first=True)
    if trial.arm == "trained":
        train(model, data, 3e-3, trial.steps(1000), trial.seed)
    states = last_states(model, data, probed)
    of_sentence = np.mean([accuracies(states, [*map(label, probed)]) for label in GLOBAL.values()], axis=0)
    of_word = accuracies(states, [*map(word_before, probed)])
    layers = {"global layer": mean_layer(of_sentence), "local layer": mean_layer(of_word)}
    return {
        "error": token_error(model, data.held_out, data),
        "first error": 1 - of_sentence[1],
        "last error": 1 - of_sentence[-1],
        "global gain": of_sentence[-1] - of_sentence[1],
        **layers,
        "lag": layers["global layer"] - layers["local layer"],
    }
