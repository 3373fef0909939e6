"""Is 4 d the right width of feed-forward networks, for the same number of parameters?"""

from collections.abc import Mapping

import minigrad as mg

from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..translating import Sentences, held_out_loss, sentences, size, train, translator

# (d_model, d_ff), with the same number of parameters for a vocabulary of about 1,000
SHAPES = {"d_ff = d": (80, 94), "d_ff = 4 d": (64, 256), "d_ff = 16 d": (40, 668)}


def make_translator(data: Sentences, arm: str) -> Transformer:
    d_model, d_ff = SHAPES[arm]
    return translator(data, d_model=d_model, d_ff=d_ff)


@claim(
    question="Is d_ff = 4 d better than d_ff = d and d_ff = 16 d, at equal parameters?",
    says={
        "Transformer Network, Feed-Forward Network": "Typical: d_ff = 4 × d",
        "Attention Is All You Need, section 3.3": "The dimensionality of input and output is d_model = 512, "
        "and the inner-layer has dimensionality d_ff = 2048.",
    },
    setting="A translator with two layers per side on 4,000 sentences, 600 steps. What a narrower "
    "feed-forward saves goes into d_model: d = 80, 64 and 40. For equal parameters, d_ff is within 20% of d "
    "and of 16 d.",
    measures={"loss": "held-out loss, nats per token", "parameters": "number of parameters"},
    arms=tuple(SHAPES),
    rates=(3e-3, 6e-3, 1.2e-2),
    rules=(
        Rule("d_ff = 4 d: loss", "d_ff = d: loss", by=0.05, part="than d_ff = d"),
        Rule("d_ff = 4 d: loss", "d_ff = 16 d: loss", by=0.05, part="than d_ff = 16 d"),
    ),
)
def feed_forward_width(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = make_translator(data, trial.arm)
    train(model, data, trial.rate, trial.steps(600), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
