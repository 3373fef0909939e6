"""L = (a b + c) f, with which micrograd teaches backpropagation: every number and every derivative.

    python demos/graph_expression.py -o expression.html

On the page, walk backward (press b, then the arrow keys): each step is one application of the chain rule.
"""

from pathlib import Path

from saving import run, save

import minigrad as mg


def expression() -> mg.graph.Graph:
    """Seven names, three operations."""
    a, b, c, f = (mg.tensor(x, requires_grad=True) for x in (2.0, -3.0, 10.0, -2.0))
    e = a * b
    d = e + c
    L = d * f
    names = {"a": a, "b": b, "c": c, "f": f, "e": e, "d": d, "L": L}
    return mg.graph.trace(L, names, title="L = (a b + c) f")


def main(*, output: Path = Path("expression.html")) -> None:
    """Draw micrograd's classic expression."""
    graph = expression()
    for vertex in graph.vertices:
        name = vertex.name
        value = vertex.value
        gradient = vertex.gradient
        if vertex.kind == "op":
            name = vertex.label
        print(f"{name} = {value.numbers.item():3g}   dL/d{name} = {gradient.numbers.item():3g}")
    save(graph, output)


if __name__ == "__main__":
    run(main)
