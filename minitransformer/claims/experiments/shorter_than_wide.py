"""Is attention (T^2 d) faster than recurrence (T d^2) if the length T of a text is less than the width d?"""

from collections.abc import Callable, Mapping

import minigrad as mg
from minigrad import Tensor, nn

from ...layers.attention import MultiHeadAttention
from ..claim import Rule, Trial, claim
from ..timing import processor_seconds
from ..translating import size

WIDTH = 128
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "self-attention": lambda: MultiHeadAttention(WIDTH, 4),
    "simple RNN": lambda: nn.RNN(WIDTH, WIDTH, batch_first=True),
    "LSTM": lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True),
}
SHAPES = {  # (number of texts in a batch, number of words in a text)
    "n = d / 4, 1 text": (1, WIDTH // 4),
    "n = d / 4, 16 texts": (16, WIDTH // 4),
    "n = 4 d, 1 text": (1, 4 * WIDTH),
    "n = 4 d, 16 texts": (16, 4 * WIDTH),
}


def rules() -> list[Rule]:
    """The rules that attention is faster for texts shorter than the width, and recurrence for longer ones.

    The number of operations per text does not depend on the batch, and is compared for one text.
    """
    made = []
    for case, (texts, n) in SHAPES.items():
        for name in ("simple RNN", "LSTM"):
            fast, slow = ("self-attention", name) if n < WIDTH else (name, "self-attention")
            for measure in ("seconds", "operations") if texts == 1 else ("seconds",):
                part = f"{measure}, {name}"
                made.append(Rule(f"{fast}: {measure}", f"{slow}: {measure}", 1.1, True, case, part))
    return made


@claim(
    question="Is a self-attention layer faster than a recurrent one if the text is shorter than the width, "
    "and slower if it is longer?",
    says={
        "Attention Is All You Need, section 4": "In terms of computational complexity, self-attention layers "
        "are faster than recurrent layers when the sequence length n is smaller than the representation "
        "dimensionality d",
        "Transformers - Attention Is All You Need, Complexity Comparison": "The Transformer trades "
        "**sequential operations** (which RNNs have) for **quadratic attention computation** ($T^2$).",
    },
    setting="Forward and backward of one layer of width d = 128 with this library's kernels on one core: "
    "self-attention with 4 heads and its four projections, a simple RNN, an LSTM. A text has n = 32 or 512 "
    "words. A batch is one text, as when a model is used, or 16, as when it is trained.",
    measures={
        "seconds": "seconds of processor time, the shortest of 10",
        "operations": "millions of floating-point operations for a text, forward",
        "parameters": "number of parameters",
    },
    arms=tuple(LAYERS),
    cases=tuple(SHAPES),
    rules=rules(),
    unequal="the claim compares layers of the same width, which have 2, 4 or 8 matrices of d by d",
    is_timed=True,
)
def shorter_than_wide(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    texts, n = SHAPES[trial.case]
    layer = LAYERS[trial.arm]()
    x = mg.randn(texts, n, WIDTH, requires_grad=True)
    seconds = processor_seconds(lambda: output(layer, x).sum().backward(), trial.steps(10))
    vertices = mg.graph.trace(output(layer, x)).vertices
    operations = sum(vertex.flops or 0 for vertex in vertices)
    return {"seconds": seconds, "operations": operations / texts / 1e6, "parameters": size(layer)}


def output(layer: nn.Module, x: Tensor) -> Tensor:
    """The output (B, T, D) of a layer, without the last state of a recurrent layer."""
    out = layer(x)
    return out[0] if isinstance(out, tuple) else out
