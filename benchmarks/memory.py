"""Memory of a graph between forward and backward: ours and torch's, and with checkpoints.

Counted is what backward() needs beyond inputs and weights. Ours: the arrays held by the closures of gradient
functions and by nodes' constants. Theirs: the tensors passed to `saved_tensors_hooks`. Each storage counts
once. A separate process for each also measures how much its resident memory grows.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import minigrad as mg
from minigrad.core.backward import Node, producer
from minigrad.core.closures import arrays_in, root
from minigrad.nn import functional

from .children import environment
from .measuring import measure
from .programs import PROGRAMS, Program, block

MIB = 2**20


def retained_by_ours(output: mg.Tensor, given: Iterable[mg.Tensor]) -> int:
    """Bytes that the graph of `output` keeps alive, beyond those of the tensors in `given`."""
    stack = [producer(output.node)]
    seen = set(stack)
    memories: dict[int, Any] = {}
    while stack:
        node = stack.pop()
        held = [*arrays_in(node.gradients), *arrays_in(node.settings)]
        for edge in node.edges:
            before = producer(edge)
            if type(before) is not Node:
                held += [edge.array] if isinstance(edge, mg.Tensor) else []
            elif before not in seen:
                seen.add(before)
                stack.append(before)
        memories.update((id(root(array)), root(array)) for array in held)
    for tensor in given:
        memories.pop(id(root(tensor.array)), None)
    return sum(memory.nbytes for memory in memories.values())


def ours(program: Program) -> int:
    tensors = [mg.tensor(array, requires_grad=True) for array in program.arrays()]
    return retained_by_ours(program.forward(functional, *tensors), tensors)


def theirs(program: Program) -> int:
    """Bytes of the storages that torch saves for backward, beyond those of inputs and weights."""
    import torch

    tensors = [torch.tensor(array, requires_grad=True) for array in program.arrays()]
    kept: list[Any] = []

    def pack(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        program.forward(torch.nn.functional, *tensors)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    for tensor in tensors:
        storages.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(storages.values())


# ---------------------------------------------------------------- by the process's memory


def resident() -> int:
    """Bytes of this process in memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(library: str, name: str, times: int = 4) -> int:
    """The bytes by which this process grows for each graph that it keeps."""
    program = PROGRAMS[name]
    if library == "minigrad":
        F = functional
        new = lambda array: mg.tensor(array, requires_grad=True)
    else:
        import torch

        torch.set_num_threads(1)
        F = torch.nn.functional
        new = lambda array: torch.tensor(array, requires_grad=True)
    tensors = [new(array) for array in program.arrays()]
    program.forward(F, *tensors).backward()
    gc.collect()
    before = resident()
    graphs = [program.forward(F, *tensors) for _ in range(times)]
    return (resident() - before) // len(graphs)


def growth_in_new_process(library: str, name: str) -> int | None:
    """`growth` in a new process, whose C library gives freed memory back at once; None without /proc."""
    if not Path("/proc/self/statm").exists():
        return None
    code = f"from benchmarks.memory import growth; print(growth({library!r}, {name!r}))"
    settings = environment(1, {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "0"})
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=settings, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def against_torch() -> dict[str, dict[str, float | None]]:
    """The MiB of each program's graph, for each library, counted both ways."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return {name: {"minigrad": ours(program) / MIB} for name, program in PROGRAMS.items()}
    table: dict[str, dict[str, float | None]] = {}
    for name, program in PROGRAMS.items():
        table[name] = {"minigrad": ours(program) / MIB, "torch": theirs(program) / MIB}
        for library in ("minigrad", "torch"):
            grown = growth_in_new_process(library, name)
            table[name][f"{library}, process"] = None if grown is None else grown / MIB
    return table


# ---------------------------------------------------------------- checkpoints


def _stack(layer: Callable[..., Any], weights: list[list[mg.Tensor]], run: Callable[..., Any]) -> Callable:
    def forward(x: mg.Tensor) -> mg.Tensor:
        for own in weights:
            x = run(layer, x, *own)
        return x.sum()

    return forward


def _mlp_layer(x: mg.Tensor, up: mg.Tensor, down: mg.Tensor) -> mg.Tensor:
    return x + functional.linear(functional.gelu(functional.linear(x, up)), down)


def _block(x: mg.Tensor, *weights: mg.Tensor) -> mg.Tensor:
    return block(functional, x, *weights, p=0.1)


def _step(forward: Callable[[], mg.Tensor]) -> None:
    forward().backward()


def checkpoints(repeats: int = 5) -> dict[str, dict[str, float]]:
    """MiB retained and the time of a step, for deep stacks with and without checkpointed layers."""
    table = {}
    width = PROGRAMS["attention block, 256 tokens"].input[-1]
    shapes = PROGRAMS["attention block, 256 tokens"].weights
    for name, layer, own, size, depth in (
        ("MLP of 16 layers", _mlp_layer, [(4 * width, width), (width, 4 * width)], (1024, width), 16),
        ("Transformer of 8 layers", _block, shapes, (4, 256, width), 8),
    ):
        x, *flat = (
            mg.tensor(array, requires_grad=True) for array in Program(layer, size, own * depth).arrays()
        )
        weights = [flat[i : i + len(own)] for i in range(0, len(flat), len(own))]
        forwards = {
            "plain": partial(_stack(layer, weights, lambda f, *args: f(*args)), x),
            "saving": partial(_stack(layer, weights, mg.autograd.checkpoint), x),
        }
        kept = {key: retained_by_ours(f(), [x, *flat]) / MIB for key, f in forwards.items()}
        steps = {key: partial(_step, f) for key, f in forwards.items()}
        times = {key: statistics.median(t) for key, t in measure(steps, repeats).items()}
        table[name] = {
            "kept": kept["plain"],
            "kept with checkpoints": kept["saving"],
            "times less": kept["plain"] / kept["saving"],
            "step time ratio": times["saving"] / times["plain"],
        }
    return table
