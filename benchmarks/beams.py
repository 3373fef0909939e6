"""Translation with beam search: ours, and the same search over torch modules with the same weights.

Before anything is timed, both must write the same translations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minigrad as mg
from minitransformer import Transformer, TransformerConfig, generate

from .children import in_child
from .generation import DifferentTextError, side_by_side
from .measuring import measure, spread
from .peers import missing, peer
from .tables import Table

SENTENCES, BEAMS, LIMIT = 100, 4, 32
SEED = 1  # with some other seeds, two texts have equal scores in float32
CONFIG = TransformerConfig(
    vocab_size=4000, d_model=128, num_heads=4, d_ff=512, num_encoder_layers=2, num_decoder_layers=2
)


def model() -> Transformer:
    """A translator of the phrasebook's size, with weights that make texts differ in content and length."""
    mg.manual_seed(0)
    translator = Transformer(CONFIG).eval()
    rng = np.random.default_rng(SEED)
    for p in translator.parameters():
        p.array += rng.normal(scale=0.1, size=p.shape).astype(np.float32)
    table = translator.embedding.weight.array
    end = CONFIG.eos_token_id
    texts = generate(translator, sources(), LIMIT, eos_token_id=())
    common = int(np.bincount(np.concatenate(texts)).argmax())
    table[[end, common]] = table[[common, end]]  # a token that is common in the texts becomes their end token
    return translator


def sources() -> list[list[int]]:
    """Sentences of 5 to 20 tokens, with their end tokens."""
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(5, 20, SENTENCES)
    return [[*rng.integers(4, CONFIG.vocab_size, n).tolist(), CONFIG.eos_token_id] for n in lengths]


def translator_of(name: str) -> Callable[[], list[list[int]]]:
    """A library's function that translates the sentences."""
    ours = model()
    texts = sources()
    if name == "ours":
        return lambda: generate(ours, texts, LIMIT, num_beams=BEAMS)
    from .peers.torch_beams import BeamTransformer

    theirs = BeamTransformer(CONFIG, {key: t.numpy().copy() for key, t in ours.state_dict().items()})
    return lambda: theirs.translate(texts, LIMIT, BEAMS)


def measure_alone(repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Seconds, without another library."""
    return {"ours": spread(measure({"ours": translator_of("ours")}, repeats, seconds, clock=clock)["ours"])}


def measure_pair(repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Seconds: ours, torch's, and their ratio."""
    peer("torch").set_threads(threads)
    steps = {"ours": translator_of("ours"), "theirs": translator_of("torch")}
    if steps["ours"]() != steps["theirs"]():
        raise DifferentTextError("torch and minigrad write different translations with the same weights.")
    return side_by_side(steps, repeats, seconds, threads, clock)


def beams(
    threads: Sequence[int] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> list[Table]:
    """The time of the translations, for each number of threads."""
    c = CONFIG
    size = f"{c.num_encoder_layers} + {c.num_decoder_layers} layers of {c.d_model}, {c.vocab_size:,} tokens"
    table = Table(f"{SENTENCES} sentences translated with {BEAMS} beams, {size}: seconds")
    note = missing("torch")
    if note:
        table.notes.append(note)
    for number in threads:
        function = "measure_alone" if note else "measure_pair"
        found = in_child("beams", function, repeats, seconds, number, clock, threads=number, kernels=kernels)
        table.rows[f"{number} thread{'s' if number > 1 else ''}"] = {
            "minigrad": found["ours"],
            "sentences a second": SENTENCES / found["ours"][1],
            "the same over torch": found.get("theirs"),
            "ratio ours / theirs": found.get("ratio"),
        }
    return [table]
