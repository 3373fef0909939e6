"""The path from one word to another through a network: its number of operations, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import minigrad as mg
from minigrad import Tensor, nn
from minigrad.core.backward import Node, producer


def dependent_operations(output: Tensor, source: Tensor) -> int:
    """The number of operations on the longest path from `source` to `output` in the graph.

    These must run one after another. Operations that only move numbers (reshape, slice) do not count.
    """
    nodes = set()
    stack = [output.node]
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node not in nodes:
            nodes.add(node)
            stack.extend(map(producer, node.edges))
    depth: dict[Any, float] = {source: 0}
    for node in sorted(nodes, key=lambda node: node.number):  # inputs before results
        before = max((depth.get(producer(edge), -math.inf) for edge in node.edges), default=-math.inf)
        depth[node] = before + (node.op.family not in ("shape", "indexing"))
    return int(depth[output.node])


def count_steps(network: nn.Module, n: int, d: int) -> int:
    """The `dependent_operations` from word 1 to output n in a layer (B, T, D) -> (B, T, D), unfused."""
    with mg.fused(False):
        x = mg.randn(1, n, d, requires_grad=True)
        return dependent_operations(network(x)[:, -1], x)


def gradient_norm(network: nn.Module, n: int, d: int) -> float:
    """The Frobenius norm of the d x d matrix d output_n / d input_1."""
    sequence = np.random.default_rng(n).standard_normal((1, n, d))
    total = 0.0
    for rows in np.array_split(np.arange(d), max(d // 8, 1)):
        x = mg.tensor(np.repeat(sequence, len(rows), 0), requires_grad=True)
        last = network(x)[:, -1]  # (rows, d)
        last[np.arange(len(rows)), rows].sum().backward()
        total += float((x.grad.numpy()[:, 0] ** 2).sum())
    return math.sqrt(total)
