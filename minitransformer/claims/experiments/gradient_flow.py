"""The effect of residual connections and norms on the gradient of a stack that is not trained."""

from collections.abc import Mapping

import numpy as np

import minigrad as mg
from minigrad import Tensor

from ...layers.config import LayerConfig
from ...layers.encoder_decoder import EncoderLayer
from ..claim import Rule, Trial, claim
from ..sublayers import put_around

D = 32
DEPTHS = {"6 layers": 6, "12 layers": 12}


def states(way: str, depth: int, d_model: int = D) -> list[Tensor]:
    """Return the input of a new encoder and the output of each layer, with gradients.

    Backward starts at the last output with a random gradient, whose root mean square is 1.
    """
    found = [mg.randn(16, 8, d_model, requires_grad=True)]  # (B, T, D)
    for _ in range(depth):
        layer = EncoderLayer(LayerConfig(d_model, num_heads=4, d_ff=4 * d_model))
        put_around(layer, d_model, way)
        found.append(layer(found[-1]))
        found[-1].retain_grad()
    (found[-1] * mg.randn(*found[-1].shape)).sum().backward()
    return found


def root_mean_square(x: Tensor) -> float:
    return float(np.sqrt(np.mean(x.numpy().astype(np.float64) ** 2)))


@claim(
    question="Do residual connections and layer norm keep gradients from vanishing and exploding?",
    says={
        "Transformer Network, Add & Norm: Residual Connections and Layer Normalization": "Gradients can flow "
        "directly through the skip connection, preventing vanishing gradients in deep networks.",
        "Transformers - Attention Is All You Need, Add & Norm": "Allows gradients to flow directly "
        "through the addition (avoids vanishing gradients)",
        "The Transformer architecture, Layer Normalization and Residual Connections": "normalizing the data "
        "to ensure consistent scaling and avoid exploding or vanishing gradients",
    },
    setting="New encoder layers of width 32 and random vectors. A random gradient of size 1 arrives at the "
    "output, and its size at the input is measured. In each layer f is attention, then feed-forward: f(x), "
    "norm(f(x)), x + f(x), or norm(x + f(x)). Two stacks are compared at a time: residuals keep the gradient "
    "from vanishing if it is at least 10 times as large with them; norms keep it from exploding if it is at "
    "least 10 times as large without them. So residuals may keep it from vanishing in x + f(x) even if it "
    "explodes there.",
    measures={"gradient": "size at the input of the stack, root mean square"},
    arms=("f(x)", "norm(f(x))", "x + f(x)", "norm(x + f(x))"),
    cases=tuple(DEPTHS),
    rules=(
        Rule(
            "f(x): gradient",
            "x + f(x): gradient",
            10,
            ratio=True,
            part="residuals without norms: no vanishing",
        ),
        Rule(
            "norm(f(x)): gradient",
            "norm(x + f(x)): gradient",
            10,
            ratio=True,
            part="residuals with norms: no vanishing",
        ),
        Rule(
            "norm(x + f(x)): gradient",
            "x + f(x): gradient",
            10,
            ratio=True,
            part="norms with residuals: no exploding",
        ),
    ),
)
def gradient_flow(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    way = {"f(x)": "bare", "norm(f(x))": "norm only", "x + f(x)": "add only", "norm(x + f(x))": "post-norm"}
    first = states(way[trial.arm], DEPTHS[trial.case])[0]
    return {"gradient": root_mean_square(first.grad)}
