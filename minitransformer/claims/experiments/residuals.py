"""Are residual connections needed to train deep Transformers, but not shallow ones?

Their effect on gradients is measured in gradient_flow.py.
"""

from collections.abc import Mapping

import minigrad as mg

from ...models.transformer import Transformer
from .. import two_looks
from ..claim import Rule, Trial, claim
from ..sublayers import put_around
from ..translating import Sentences, held_out_loss, sentences, size, train, translator

ENCODERS = {"translation with 1 encoder layer": 1, "translation with 4 encoder layers": 4}
LOOKERS = {"two looks with 2 layers": 2, "two looks with 6 layers": 6}
SHALLOW, DEEP = zip(ENCODERS, LOOKERS, strict=True)


def make_translator(data: Sentences, depth: int, has_residuals: bool) -> Transformer:
    """Create a translator with or without residual connections in the encoder.

    The decoder always has them. Without them, it would lose the previous word at any depth, since
    cross-attention only returns what is in the encoder's output.
    """
    model = translator(data, num_encoder_layers=depth, num_decoder_layers=1)
    if not has_residuals:
        put_around(model.encoder, model.config.d_model, "norm only")
    return model


@claim(
    question="Do residual connections make deep Transformers trainable, while shallow ones need none?",
    says={
        "Transformers - Attention Is All You Need, Add & Norm": "Makes deep networks (6+ layers) trainable",
    },
    setting="norm(x + f(x)) with residual connections, norm(f(x)) without. A made task that needs two "
    "layers, x[x[x[i]]] of six numbers: an encoder of two layers and one of six, 300 steps of 48 new "
    "examples. And a translator with an encoder of one layer or of four on 4,000 sentences of at most 8 "
    "English words, 400 steps; its decoder has one layer, always with residual connections, without which "
    "it loses the previous word at any depth. If shallow models need them, too, depth is not the reason. "
    "Gradients are another claim (gradient-flow).",
    measures={"loss": "loss on new data, nats per token", "parameters": "number of parameters"},
    arms=("with", "without"),
    cases=(*LOOKERS, *ENCODERS),
    rates=(1e-3, 3e-3, 1e-2),
    rules=(
        *(
            Rule("with: loss", "without: loss", by=0.1, case=case, part="deep ones need them")
            for case in DEEP
        ),
        *(
            Rule("without: loss", "with: loss", by=-0.1, case=case, part="shallow ones need none")
            for case in SHALLOW
        ),
    ),
)
def residuals(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    has_residuals = trial.arm == "with"
    if trial.case in LOOKERS:
        looker = two_looks.Looker("post-norm" if has_residuals else "norm only", LOOKERS[trial.case])
        losses, _ = two_looks.train(looker, trial.rate, trial.steps(300), trial.seed)
        return {"loss": two_looks.new_loss(losses), "parameters": size(looker)}
    data = sentences(trial.seed)
    model = make_translator(data, ENCODERS[trial.case], has_residuals)
    train(model, data, trial.rate, trial.steps(400), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
