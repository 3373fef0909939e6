"""Text from the `nano` model with a key/value cache: ours and torch eager's, with the same weights.

A step computes the vectors of one token: little arithmetic, and much overhead. Before anything is timed, both
must write the same text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import minigrad as mg
from minitransformer import GPT, GPTConfig, generate

from .children import in_child
from .measuring import measure, ratios, spread
from .peers import missing, peer
from .tables import Table

TOKENS = 256
PROMPT = [[1, 2, 3, 4]]
SETTLE = 0.2  # seconds between turns of more than one thread, until the other library's threads have slept
NANO = GPTConfig(vocab_size=65, n_positions=len(PROMPT[0]) + TOKENS, n_embd=128, n_layer=4, n_head=4)
SMALLER = dataclasses.replace(NANO, n_embd=16, n_layer=1)


class DifferentTextError(AssertionError):
    """Raised when two libraries do not write the same text."""


def model(config: GPTConfig = NANO) -> GPT:
    """A model with enough positions for the text, and weights with which the text varies."""
    mg.manual_seed(0)
    gpt = GPT(config).eval()
    for table in (gpt.embedding.weight, gpt.positions.weight):
        table.array *= 10
    return gpt


def writer(name: str, config: GPTConfig = NANO) -> Any:
    """A library's function that writes the text; None for libraries that are not measured."""
    ours = model(config)
    if name == "ours":
        return lambda tokens: generate(ours, PROMPT, tokens)
    if name != "torch":
        return None
    from .peers.torch_generation import CachedGPT

    theirs = CachedGPT(config, {key: tensor.numpy().copy() for key, tensor in ours.state_dict().items()})
    return lambda tokens: theirs.generate(PROMPT, tokens)


def measure_alone(repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Microseconds per token, without another library."""
    write = writer("ours")
    times = measure({"ours": lambda: write(TOKENS)}, repeats, seconds, clock=clock)
    return {"ours": [1e6 * t / TOKENS for t in spread(times["ours"])]}


def measure_pair(repeats: int, seconds: float, threads: int, clock: str) -> dict[str, Any]:
    """Microseconds per token: ours, torch's, and their ratio."""
    peer("torch").set_threads(threads)
    ours, theirs = writer("ours"), writer("torch")
    if ours(TOKENS) != theirs(TOKENS):
        raise DifferentTextError("torch and minigrad write different texts from the same weights.")
    steps = {"ours": lambda: ours(TOKENS), "theirs": lambda: theirs(TOKENS)}
    found = side_by_side(steps, repeats, seconds, threads, clock)
    return {name: [1e6 * t / TOKENS for t in found[name]] for name in steps} | {"ratio": found["ratio"]}


def side_by_side(
    steps: Mapping[str, Callable[[], Any]], repeats: int, seconds: float, threads: int, clock: str
) -> dict[str, Any]:
    """The seconds of "ours" and of "theirs", in turns, and their ratio."""
    times = measure(steps, repeats, seconds, SETTLE if threads > 1 else 0.0, clock)
    each = {name: spread(found) for name, found in times.items()}
    return {**each, "ratio": ratios(times["ours"], times["theirs"])}


def generation(
    threads: Sequence[int] = (1,),
    repeats: int = 50,
    seconds: float = 20.0,
    clock: str = "wall",
    kernels: str | None = None,
) -> list[Table]:
    """The time of a token, of one text at a time, for each number of threads."""
    table = Table(f"generation with a key/value cache, nano, {TOKENS} tokens, greedy: us a token")
    note = missing("torch")
    if note:
        table.notes.append(note)
    for number in threads:
        function = "measure_alone" if note else "measure_pair"
        found = in_child(
            "generation", function, repeats, seconds, number, clock, threads=number, kernels=kernels
        )
        table.rows[f"{number} thread{'s' if number > 1 else ''}"] = {
            "minigrad": found["ours"],
            "tokens a second": 1e6 / found["ours"][1],
            "torch eager": found.get("theirs"),
            "ratio ours / theirs": found.get("ratio"),
        }
    return [table]
