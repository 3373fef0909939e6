"""Does layer norm make training faster and more stable, by depth?"""

from collections.abc import Mapping

import minigrad as mg
from minigrad import nn

from ...models.transformer import Transformer
from ..claim import Rule, Trial, claim
from ..sublayers import put_around
from ..translating import Sentences, held_out_loss, sentences, size, train, translator

DEPTHS = {"1 layer": 1, "4 layers": 4}


def make_translator(data: Sentences, depth: int, arm: str) -> Transformer:
    model = translator(data, num_encoder_layers=depth, num_decoder_layers=depth)
    if arm != "with":
        put_around(model, model.config.d_model, "add only")
    if arm == "without, smaller":
        shrink_branches(model)
    return model


def shrink_branches(model: Transformer) -> None:
    """Divide the last matrix of each sub-layer by the root of their number, so that values do not grow with
    depth: as GPT-2 is initialized."""
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
    setting="norm(x + f(x)) with norms, x + f(x) without. A translator with one and with four layers a side, "
    "4,000 sentences, 250 steps. Smaller: without norms, the last matrix of each sub-layer starts divided "
    "by the root of their number, a remedy against values that grow.",
    measures={"loss": "held-out loss, nats a token", "parameters": "number of parameters"},
    arms=("with", "without", "without, smaller"),
    cases=tuple(DEPTHS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        Rule("with: loss", "without: loss", by=0.1, part="than without"),
        Rule(
            "with: loss", "without, smaller: loss", by=0.1, part="than without, with smaller initial weights"
        ),
    ),
)
def norms(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = make_translator(data, DEPTHS[trial.case], trial.arm)
    train(model, data, trial.rate, trial.steps(250), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
