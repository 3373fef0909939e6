"""Do residual connections make deep Transformers trainable?"""

from collections.abc import Mapping

import minigrad as mg

from ...models.transformer import Transformer
from .. import two_looks
from ..claim import Rule, Trial, claim
from ..sublayers import put_around
from ..translating import Sentences, held_out_loss, sentences, size, train, translator

DEPTHS = {"translation, 1 layer": 1, "translation, 4 layers": 4}
LOOKS = "two looks, 6 layers"


def make_translator(data: Sentences, depth: int, has_residuals: bool) -> Transformer:
    model = translator(data, num_encoder_layers=depth, num_decoder_layers=depth)
    if not has_residuals:
        put_around(model, model.config.d_model, "norm only")
    return model


@claim(
    question="Do residual connections make deep Transformers trainable?",
    says={
        "Transformers - Attention Is All You Need, Add & Norm": "Makes deep networks (6+ layers) trainable",
        "The Transformer architecture, Residual Connections": "Residual connections make it possible to "
        "train deeper models by mitigating the problem of gradient vanishing over multiple layers.",
    },
    setting="norm(x + f(x)) with residual connections, norm(f(x)) without. A translator with one and with "
    "four layers a side, 4,000 sentences, 250 steps; and a made task that needs two layers, x[x[x[i]]] of "
    "six numbers, with six layers, 300 steps of 48 new examples.",
    measures={"loss": "loss on new data, nats a token", "parameters": "number of parameters"},
    arms=("with", "without"),
    cases=(*DEPTHS, LOOKS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(Rule("with: loss", "without: loss", by=0.1),),
)
def residuals(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    if trial.case == LOOKS:
        looker = two_looks.Looker("post-norm" if trial.arm == "with" else "norm only", depth=6)
        losses, _ = two_looks.train(looker, trial.rate, trial.steps(300), trial.seed)
        return {"loss": two_looks.new_loss(losses), "parameters": size(looker)}
    data = sentences(trial.seed)
    model = make_translator(data, DEPTHS[trial.case], trial.arm == "with")
    train(model, data, trial.rate, trial.steps(250), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
