"""Does attention need four times the memory for twice as many words, and how can that be avoided?"""

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import minigrad as mg

from ...layers import EncoderLayer, LayerConfig
from ..claim import Rule, Trial, claim
from ..translating import size

ARMS = ("as defined", "in tiles")
LENGTHS = {"from 64 to 128 words": 64, "from 512 to 1,024 words": 512}


@contextmanager
def kernels(name: str) -> Iterator[None]:
    """Context manager that computes attention "as defined", with all n x n weights, or "in tiles"."""
    with mg.fused(name == "in tiles"), mg.kernels.use("numpy"):
        yield


def peak_bytes(call: Callable[[], object]) -> int:
    """The peak number of bytes that a call allocates, for NumPy's arrays and Python's objects."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@claim(
    question="Does a layer with attention need four times the memory for twice the words?",
    says={
        "Explain step by step ... with test data, Why Did They Choose These Values?": "Memory grows as O(n²) "
        "with attention",
    },
    setting="Forward and backward of an encoder layer of width 64 with 4 heads on one text, whose length is "
    "doubled. Attention is computed as it is defined, or tile by tile, so that the n by n weights are "
    "never stored (FlashAttention's idea). A factor of 3.5 counts as four: growth as n to the power 1.8.",
    measures={
        "short": "peak bytes beyond those held before, for the shorter text",
        "long": "the same, for the longer text",
        "parameters": "number of parameters",
    },
    arms=ARMS,
    cases=tuple(LENGTHS),
    rules=[Rule(f"{arm}: short", f"{arm}: long", by=3.5, ratio=True, part=arm) for arm in ARMS],
)
def attention_memory(trial: Trial) -> Mapping[str, float]:
    mg.manual_seed(trial.seed)
    layer = EncoderLayer(LayerConfig(64, num_heads=4, d_ff=256))
    n = LENGTHS[trial.case]
    short, long = (mg.randn(1, length, 64, requires_grad=True) for length in (n, 2 * n))
    with kernels(trial.arm):
        layer(short).sum().backward()  # allocates the gradients of the parameters
        found = {
            "short": peak_bytes(lambda: layer(short).sum().backward()),
            "long": peak_bytes(lambda: layer(long).sum().backward()),
        }
    return {**found, "parameters": size(layer)}
