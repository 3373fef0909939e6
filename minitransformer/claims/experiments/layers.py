# ruff: noqa: E501
"""What is around a sub-layer: the residual connection, the norm, and the warm-up that a norm asks for."""

from collections.abc import Callable, Mapping
from typing import Any

import minigrad as mg
from minigrad import Tensor, nn

from ..claim import Rule, Trial, claim
from ..translating import held_out_loss, sentences, size, train, translator

MEASURES = {"loss": "held-out loss, nats a token", "parameters": "number of parameters"}
DEPTHS = {"1 layer": 1, "4 layers": 4}


class NormOnly(nn.Module):
    """norm(f(x)), without the residual."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(f(x))


class ResidualOnly(nn.Module):
    """x + f(x), without the norm."""

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return x + f(x)


def replace_residuals(model: Any, make: Callable[[Any], nn.Module]) -> None:
    """Give each sub-layer of a Transformer something else around it."""
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for name in ("residual1", "residual2", "residual3"):
            if hasattr(layer, name):
                setattr(layer, name, make(getattr(layer, name)))


@claim(
    question="Does a deep Transformer need residual connections?",
    says={
        "Transformers - Attention Is All You Need, Why Transformers Work So Well": "Gradients flow freely through "
        "skip connections, enabling training of very deep models.",
        "The Transformer architecture, Residual Connections": "alleviates the problem of vanishing gradients",
    },
    setting="A translator on 4,000 sentences, 300 steps, with one layer on each side and with four; norm(f(x)) "
    "without the residual, norm(x + f(x)) with it.",
    measures=MEASURES,
    arms=("with", "without"),
    cases=tuple(DEPTHS),
    rates=(3e-4, 1e-3, 3e-3),
    rules=(Rule("with: loss", "without: loss", by=0.1),),
)
def residuals(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    depth = DEPTHS[trial.case]
    model = translator(data, num_encoder_layers=depth, num_decoder_layers=depth)
    if trial.arm == "without":
        replace_residuals(model, lambda residual: NormOnly(residual.norm))
    train(model, data, trial.rate, trial.steps(300), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}


@claim(
    question="Does a deep Transformer need layer norm?",
    says={
        "The Transformer architecture, Layer Normalization": "helps stabilize training: inputs to each sub-layer "
        "are well-behaved",
    },
    setting="A translator on 4,000 sentences, 300 steps, with one layer on each side and with four; x + f(x) "
    "without the norm, norm(x + f(x)) with it.",
    measures=MEASURES,
    arms=("with", "without"),
    cases=tuple(DEPTHS),
    rates=(3e-4, 1e-3, 3e-3),
    rules=(Rule("with: loss", "without: loss", by=0.1),),
)
def norms(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    depth = DEPTHS[trial.case]
    model = translator(data, num_encoder_layers=depth, num_decoder_layers=depth)
    if trial.arm == "without":
        replace_residuals(model, lambda residual: ResidualOnly())
    train(model, data, trial.rate, trial.steps(300), trial.seed)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}


@claim(
    question="Does training need a warm-up?",
    says={
        "Transformers - Attention Is All You Need, Learning Rate Schedule (Warmup)": "Prevents large unstable "
        "updates early in training when parameters are random",
    },
    setting="A translator of four layers on each side, 4,000 sentences, 300 steps, Adam; a warm-up of 60 steps or "
    "none, then the rate falls linearly to 0. Each arm has its own best rate.",
    measures=MEASURES,
    arms=("warm-up", "no warm-up"),
    cases=("norm after, as in the paper", "norm first"),
    rates=(3e-4, 1e-3, 3e-3, 6e-3),
    rules=(Rule("warm-up: loss", "no warm-up: loss", by=0.05),),
)
def warm_up(trial: Trial) -> Mapping[str, float]:
    data = sentences(trial.seed)
    mg.manual_seed(trial.seed)
    model = translator(
        data, num_encoder_layers=4, num_decoder_layers=4, norm_first=trial.case == "norm first"
    )
    warmup = 60 if trial.arm == "warm-up" else 0
    train(model, data, trial.rate, trial.steps(300), trial.seed, warmup=warmup)
    return {"loss": held_out_loss(model, data), "parameters": size(model)}
