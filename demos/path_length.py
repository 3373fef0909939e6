"""How far the last token is from the first: simple RNN, LSTM, GRU and Transformer, for growing lengths.

python demos/path_length.py -o docs/path-length.png

Three things are measured for sequences of n tokens, one layer each, as initialized:

- steps: the operations that must run one after another, from input 1 to output n, counted in the graph of the
  readable definitions. Moving numbers (reshape, slice) does not count.
- time: forward and backward, on this machine.
- gradient: the Frobenius norm of d output_n / d input_1, in float64.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import minigrad as mg
from minigrad import nn
from minitransformer.claims.experiments.far_gradients import Recurrent, open_lstm
from minitransformer.claims.paths import count_steps, gradient_norm
from minitransformer.cli.parsing import parse
from minitransformer.layers import EncoderLayer, LayerConfig

LENGTHS = (3, 10, 30, 100, 300, 1000)


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "simple RNN": lambda d: Recurrent(nn.RNN(d, d, batch_first=True)),
    "LSTM": lambda d: Recurrent(nn.LSTM(d, d, batch_first=True)),
    "LSTM, open gates": lambda d: Recurrent(open_lstm(d)),
    "GRU": lambda d: Recurrent(nn.GRU(d, d, batch_first=True)),
    "Transformer": lambda d: EncoderLayer(LayerConfig(d, num_heads=4, d_ff=4 * d)),
}

# ---------------------------------------------------------------- measures


def measure_time(network: nn.Module, n: int, d: int, batch: int, repeats: int) -> float:
    """Milliseconds of processor time for forward and backward: the median of `repeats`."""
    x = mg.randn(batch, n, d, requires_grad=True)
    times = []
    for _ in range(repeats + 1):  # the first one compiles
        network.zero_grad()
        start = time.process_time()
        network(x).sum().backward()
        times.append(time.process_time() - start)
    return 1000 * float(np.median(times[1:]))


@dataclass(frozen=True)
class Measured:
    steps: int
    milliseconds: float
    gradient: float  # the geometric mean over initial weights


def measure(name: str, n: int, d: int, batch: int, repeats: int, seeds: int) -> Measured:
    norms = []
    for seed in range(seeds):
        mg.manual_seed(seed)
        norms.append(gradient_norm(NETWORKS[name](d).to("float64"), n, d))
    network = NETWORKS[name](d)
    gradient = float(np.exp(np.mean(np.log(norms)))) if min(norms) > 0 else 0.0
    return Measured(count_steps(network, n, d), measure_time(network, n, d, batch, repeats), gradient)


# ---------------------------------------------------------------- table and picture


def table(results: dict[str, dict[int, Measured]]) -> str:
    lengths = list(next(iter(results.values())))
    lines = []
    for title, show in (
        ("steps that wait for each other", lambda m: f"{m.steps:,}"),
        ("forward and backward, ms", lambda m: f"{m.milliseconds:.3g}"),
        ("gradient between the far ends", lambda m: f"{m.gradient:.1e}" if m.gradient else "< 1e-308"),
    ):
        lines += [f"| {title}: n = | {' | '.join(f'{n:,}' for n in lengths)} |"]
        lines += ["|---|" + "---:|" * len(lengths)]
        lines += [
            f"| {name} | {' | '.join(show(row[n]) for n in lengths)} |" for name, row in results.items()
        ]
        lines += [""]
    return "\n".join(lines)


STYLES = {  # colours of Okabe & Ito, safe for the colour-blind, and markers
    "simple RNN": ("#D55E00", "o"),
    "LSTM": ("#0072B2", "s"),
    "LSTM, open gates": ("#56B4E9", "P"),
    "GRU": ("#009E73", "^"),
    "Transformer": ("#000000", "D"),
}


def draw(results: dict[str, dict[int, Measured]], path: Path) -> None:
    """Three panels, one for each measure, over the length."""
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    for name, row in results.items():
        colour, marker = STYLES[name]
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5, "label": name}
        style["linestyle"] = "--" if "open gates" in name else "-"  # over the LSTM's, in two panels
        panels[0].plot(list(row), [m.steps for m in row.values()], **style)
        panels[1].plot(list(row), [m.milliseconds for m in row.values()], **style)
        panels[2].plot(list(row), [m.gradient or math.nan for m in row.values()], **style)
    titles = (
        "Steps that wait for each other",
        "Forward and backward, ms",
        "Gradient of output n by input 1, norm",
    )
    for panel, title in zip(panels, titles, strict=True):
        panel.set(title=title, xlabel="n, tokens in the sequence", xscale="log", yscale="log")
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        lengths = list(next(iter(results.values())))
        panel.set_xticks(lengths, [f"{n:,}" for n in lengths])
        panel.minorticks_off()
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panels[2].set_ylim(1e-40, 1e2)  # nothing can be learned below it
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=130)


def main(
    *,
    lengths: tuple[int, ...] = LENGTHS,
    width: int = 64,
    batch: int = 16,
    repeats: int = 5,
    seeds: int = 5,
    output: Path = Path("path-length.png"),
) -> None:
    """Measure, print the table, and draw it."""
    results: dict[str, dict[int, Measured]] = {name: {} for name in NETWORKS}
    for n in sorted(lengths):
        for name in NETWORKS:
            results[name][n] = measure(name, n, width, batch, repeats, seeds)
    print(f"one layer of width {width}, batch {batch}, {seeds} initial weights\n\n{table(results)}")
    draw(results, output)
    print(output)


if __name__ == "__main__":
    parse(main)
