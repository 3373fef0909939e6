"""Do many steps and vanishing gradients separate distant words in recurrence, but not in attention?"""

import math
from collections.abc import Callable, Mapping

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn, optim
from minigrad.nn import functional as F

from ...layers import EncoderLayer, LayerConfig
from ...layers.positions import SinusoidalPositions
from ..claim import Rule, Trial, claim
from ..paths import count_steps, gradient_norm
from ..translating import size

VOCABULARY = 8
WORDS = 50
RECURRENT = ("simple RNN", "LSTM", "LSTM, gates open")


class Recurrent(nn.Module):
    """A recurrent layer without its final state: x (B, T, D) -> (B, T, D)."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


def open_lstm(d: int) -> nn.LSTM:
    """Create an LSTM with open forget gates: with a bias of 5, a cell keeps sigmoid(5) = 0.993 per step.

    An LSTM can learn such a bias; an initial bias of 1 is common (Jozefowicz et al. 2015).
    """
    lstm = nn.LSTM(d, d, batch_first=True)
    lstm.bias_hh_l0.array[d : 2 * d] = 5
    return lstm


# the layers, which have about the same number of parameters, and their widths
LAYERS: dict[str, tuple[int, Callable[[int], nn.Module]]] = {
    "self-attention": (32, lambda d: EncoderLayer(LayerConfig(d, num_heads=4, d_ff=2 * d, dropout=0.0))),
    "simple RNN": (63, lambda d: Recurrent(nn.RNN(d, d, batch_first=True))),
    "LSTM": (32, lambda d: Recurrent(nn.LSTM(d, d, batch_first=True))),
    "LSTM, gates open": (32, lambda d: Recurrent(open_lstm(d))),
}


class FirstWord(nn.Module):
    """A model that predicts the first word of a text (B, T) from a layer's last output: logits (B, V)."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self.width, make = LAYERS[arm]
        self.embedding = nn.Embedding(VOCABULARY, self.width)
        self.positions = SinusoidalPositions(self.width) if arm == "self-attention" else nn.Identity()
        self.layer = make(self.width)
        self.output = nn.Linear(self.width, VOCABULARY)

    def forward(self, ids: np.ndarray) -> Tensor:
        return self.output(self.layer(self.positions(self.embedding(ids)))[:, -1])


def train(model: nn.Module, rate: float, steps: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    optimizer = optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        ids = random.integers(VOCABULARY, size=(32, WORDS))
        optimizer.param_groups[0]["lr"] = rate * min(1, 10 * step / steps) * (1 - (step - 1) / steps)
        optimizer.zero_grad()
        F.cross_entropy(model(ids), ids[:, 0]).backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@mg.no_grad()
def scores(model: nn.Module, seed: int) -> dict[str, float]:
    """The loss and the error on new texts, drawn with the seed."""
    ids = np.random.default_rng([seed, 1]).integers(VOCABULARY, size=(500, WORDS))
    logits = model(ids)
    return {
        "loss": F.cross_entropy(logits, ids[:, 0]).item(),
        "error": float((logits.numpy().argmax(-1) != ids[:, 0]).mean()),
    }


def rules() -> list[Rule]:
    made = []
    for kind in RECURRENT:
        made += [
            Rule("self-attention: steps", f"{kind}: steps", by=2, ratio=True, part=f"steps, {kind}"),
            Rule(
                f"{kind}: gradient", "self-attention: gradient", by=10, ratio=True, part=f"gradient, {kind}"
            ),
            Rule("self-attention: error", f"{kind}: error", by=0.1, part=f"learning in 400 steps, {kind}"),
        ]
    return made


@claim(
    question="Between the ends of a text, does a recurrent layer need more steps in a row than "
    "self-attention, let less gradient pass, and fail to learn in 400 steps what the first word was?",
    says={
        "Transformers - Attention Is All You Need, What RNN + Attention Still Gets Wrong": "Information "
        "between position 1 and position $T$ must travel through $T$ recurrent steps — gradient signal "
        "degrades even with LSTM.",
        "Transformers - Attention Is All You Need, Why Transformers Work So Well": "Any two tokens are "
        "connected through a single attention step, regardless of distance. No vanishing gradients over "
        "long ranges.",
        "The Transformer architecture, Key Advantages of Transformer Architecture": "The self-attention "
        "mechanism can model relationships between tokens that are far apart in the sequence, something "
        "RNNs struggle with.",
    },
    setting=f"A model of one layer, about 9,000 parameters in all, reads {WORDS} random words of 8, and "
    "names the first of them after the last. It is trained for 400 steps on 32 new texts each; whether more "
    "steps would be enough is not measured. A guess is wrong with probability 0.875. "
    "The recurrent layers are a simple RNN, an LSTM as PyTorch initializes it, and one whose forget gates "
    "start open, with a bias of 5. Self-attention is a Transformer's encoder layer.",
    measures={
        "steps": "operations in a row on the longest path from the first word to the last output",
        "gradient": "mean size of the gradient at word 1 for one of size 1 at the last output, at the start",
        "error": "fraction of first words named wrongly after training",
        "loss": "loss of new texts after training, nats",
        "parameters": "number of parameters",
    },
    arms=tuple(LAYERS),
    rates=(3e-3, 1e-2, 3e-2),
    rules=rules(),
)
def far_gradients(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    model = FirstWord(trial.arm)
    steps = count_steps(model.layer, WORDS, model.width)
    gradient = gradient_norm(model.layer.to("float64"), WORDS, model.width) / math.sqrt(model.width)
    model.to("float32").zero_grad()
    train(model, trial.rate, trial.steps(400), trial.seed)
    return {"steps": steps, "gradient": gradient, **scores(model, trial.seed), "parameters": size(model)}
