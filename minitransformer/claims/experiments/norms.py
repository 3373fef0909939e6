"""Does layer norm make training faster and more stable?

Each model is trained at four learning rates that span a factor of 30. Faster means a lower loss after the
same number of steps, at each arm's best rate. More stable means a lower mean loss over all rates, so that a
rate that is not the best does less harm.
"""

from collections.abc import Mapping

import numpy as np

import minigrad as mg
from minigrad import nn

from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..sublayers import put_around
from ..translating import Sentences, held_out_loss, sentences, size, train, translator
from ..two_looks import Looker, new_loss
from ..two_looks import train as train_looker

TRANSLATION, LOOKS = "translation with 1 layer", "two looks with 6 layers"
NORMS = {"norm after": "post-norm", "norm first": "pre-norm"}
RIVALS = ("no norm", "no norm but smaller")
PARTS = {"faster": "loss", "more stable": "mean loss"}
RATES = (1e-3, 3e-3, 1e-2, 3e-2)


def make_translator(data: Sentences, arm: str) -> Transformer:
    model = translator(
        data, num_encoder_layers=1, num_decoder_layers=1, norm_first=NORMS.get(arm) == "pre-norm"
    )
    if arm in RIVALS:
        put_around(model, model.config.d_model, "add only")
    if arm == "no norm but smaller":
        shrink_branches(model)
    return model


def make_looker(arm: str) -> Looker:
    model = Looker(NORMS.get(arm, "add only"), depth=6)
    if arm in RIVALS:
        model.output = nn.Sequential(model.output[1])  # removes the last norm
    if arm == "no norm but smaller":
        shrink_branches(model)
    return model


def make_model(trial: Trial) -> nn.Module:
    mg.manual_seed(trial.seed)
    if trial.case == LOOKS:
        return make_looker(trial.arm)
    return make_translator(sentences(trial.seed), trial.arm)


def shrink_branches(model: nn.Module) -> None:
    """Divide the last matrix of each sub-layer by the square root of the number of sub-layers, as GPT-2 does.

    So values do not grow with depth.
    """
    last = [
        module
        for name, module in model.named_modules()
        if name.endswith(("out_proj", "linear2")) and isinstance(module, nn.Linear)
    ]
    for linear in last:
        linear.weight.data[...] /= len(last) ** 0.5


@claim(
    question="Does layer norm make the training of a Transformer faster and more stable?",
    says={
        "The Transformer architecture, Layer Normalization and Residual Connections": "ensures that the "
        "inputs to each sub-layer have a stable distribution, improving training speed and stability",
        "Explain step by step ... with test data, Step 6: Add & Normalize": "Stabilizes training",
    },
    setting="norm(x + f(x)), the norm after; x + f(norm(x)), the norm first; x + f(x), no norm. Smaller: "
    "the last matrix of each sub-layer starts divided by the square root of their number, so that values do "
    "not grow with depth. Norms have to be better than both models without. A translator with one layer per "
    "side on 4,000 sentences of at most 8 English words, 300 steps; and a made task, x[x[x[i]]] of six "
    "numbers: an encoder of six layers, 150 steps of 48 new examples, few enough to tell who learns it "
    "sooner. Models with norms have one before the output, too. Each model is trained at the learning rates "
    "0.001, 0.003, 0.01 and 0.03: faster is a lower loss at the best of them, more stable a lower mean over "
    "all. Losses are capped at that of guessing.",
    measures={
        "loss": "loss on new data at the best of four learning rates, nats per token",
        "mean loss": "its mean over the four rates",
        "best rate": "the best learning rate",
        "parameters": "number of parameters",
    },
    arms=(*NORMS, *RIVALS),
    cases=(TRANSLATION, LOOKS),
    rules=tuple(
        Rule(f"{norm}: {measure}", f"{rival}: {measure}", by=0.1, part=f"{better} with the {norm}")
        for better, measure in PARTS.items()
        for norm in NORMS
        for rival in RIVALS
    ),
)
def norms(trial: Trial) -> Mapping[str, float]:
    losses = []
    for rate in RATES:
        model = make_model(trial)  # the same initial weights for each rate
        losses.append(trained_loss(model, trial, rate))
    return {
        "loss": min(losses),
        "mean loss": float(np.mean(losses)),
        "best rate": RATES[int(np.argmin(losses))],
        "parameters": size(model),
    }


def trained_loss(model: nn.Module, trial: Trial, rate: float) -> float:
    if trial.case == LOOKS:
        losses, _ = train_looker(model, rate, trial.steps(150), trial.seed)
        return new_loss(losses)
    data = sentences(trial.seed)
    train(model, data, rate, trial.steps(300), trial.seed)
    return held_out_loss(model, data)
