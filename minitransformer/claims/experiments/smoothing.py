"""Does label smoothing hurt perplexity, improve translations, and prevent overconfidence?"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import minigrad as mg

from ...tasks.metrics import translation_scores
from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, probabilities, sentences, size, train, translations, translator

COUNTS = {"400 sentences": 400, "4,000 sentences": 4000}
STEPS = {"400 sentences": 400, "4,000 sentences": 800}


def reliability(p: np.ndarray, right: np.ndarray, bins: int = 10) -> list[tuple[float, float, float]]:
    """Return the mean confidence, the accuracy and the fraction of the predictions in each bin of confidence.

    The confidence of a prediction is the probability of the likeliest word. Empty bins are left out.
    """
    confidence = p.max(-1)
    is_right = p.argmax(-1) == right
    tenth = np.minimum((confidence * bins).astype(int), bins - 1)
    chosen = [tenth == i for i in np.unique(tenth)]
    return [(confidence[each].mean(), is_right[each].mean(), each.mean()) for each in chosen]


def calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: |confidence - accuracy| averaged over all predictions, by bins.

    `p` is (N, classes), and `right` has the N correct classes (Guo et al. 2017).
    """
    return sum(abs(confidence - accuracy) * part for confidence, accuracy, part in reliability(p, right))


@claim(
    question="Does label smoothing hurt perplexity, improve translations, and prevent overconfidence?",
    says={
        "Attention Is All You Need, section 5.4": "This hurts perplexity, as the model learns to be more "
        "unsure, but improves accuracy and BLEU score.",
        "Transformers - Attention Is All You Need, Label Smoothing": "Label smoothing prevents the model "
        "from becoming overconfident and improves generalization, at the cost of slightly higher "
        "perplexity.",
    },
    setting="A translator with smoothing of 0.1 and without: 400 steps on 400 sentences, which it learns by "
    "heart, and 800 steps on 4,000; all have at most 5 English words. Each arm's learning rate is the one "
    "with the fewest wrong words. Overconfident means that 2 more of 100 words are wrong than the model "
    "expects. A model that is too unsure, and expects more errors than it makes, is not overconfident: that "
    "is not counted against smoothing. The calibration error, which counts both, is reported.",
    measures={
        "loss": "held-out loss without smoothing, nats per token: the logarithm of the perplexity",
        "word error": "fraction of wrong next words with teacher forcing",
        "below 100 BLEU": "100 minus the BLEU score of greedy translations",
        "expected error": "the word error that the model expects: 1 minus the mean probability of its most "
        "likely word",
        "calibration error": "the mean distance between confidence and accuracy, over tenths of the "
        "confidence; underconfidence counts like overconfidence",
        "parameters": "number of parameters",
    },
    arms=("smoothed", "not smoothed"),
    cases=tuple(COUNTS),
    rates=(1e-3, 3e-3, 1e-2),
    tuned_by="word error",  # not by the loss, which smoothing changes
    rules=(
        # 2% of perplexity, half a word in 100, half a point of BLEU (in the paper, 5% and half a point)
        Rule("not smoothed: loss", "smoothed: loss", by=0.02, part="hurts perplexity"),
        Rule("smoothed: word error", "not smoothed: word error", by=0.005, part="improves accuracy and BLEU"),
        Rule(
            "smoothed: below 100 BLEU",
            "not smoothed: below 100 BLEU",
            by=0.5,
            part="improves accuracy and BLEU",
        ),
        # without smoothing, 2 more of 100 words are wrong than the model expects; not with smoothing
        Rule(
            "not smoothed: expected error",
            "not smoothed: word error",
            by=0.02,
            part="prevents overconfidence",
        ),
        Rule("smoothed: word error", "smoothed: expected error", by=-0.02, part="prevents overconfidence"),
    ),
)
def smoothing(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed, longest=5)
    few = replace(data, train=data.train[: COUNTS[trial.case]])
    mg.manual_seed(trial.seed)
    model = translator(data)
    train(
        model,
        few,
        trial.rate,
        trial.steps(STEPS[trial.case]),
        trial.seed,
        smoothing=0.1 if trial.arm == "smoothed" else 0.0,
    )
    p, right = probabilities(model, data.held_out, data)
    written = [data.tokenizer.decode(ids) for ids in translations(model, data.held_out, data)]
    french = [data.tokenizer.decode(ids) for _, ids in data.held_out]
    return {
        "loss": held_out_loss(model, data),
        "word error": float((p.argmax(-1) != right).mean()),
        "below 100 BLEU": 100 - float(translation_scores(written, french)["bleu"]),
        "expected error": float(1 - p.max(-1).mean()),
        "calibration error": calibration_error(p, right),
        "parameters": size(model),
    }
