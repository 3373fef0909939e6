"""A network with two layers learns exclusive or: one training step, drawn, with the loss before and after it.

    python demos/graph_mlp.py -o mlp.html

The biases are added to each of the four points: on the page, their edges show that they were expanded over
the points, and that backward sums over them.
"""

from pathlib import Path

from saving import run, save

import minigrad as mg
from minigrad import nn

POINTS = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
ANSWERS = [[0.0], [1.0], [1.0], [0.0]]


def main(*, output: Path = Path("mlp.html"), lr: float = 0.5, seed: int = 0) -> None:
    """Draw a step of training a small network.

    Args:
        lr: Learning rate of the step.
        seed: Seed of the initial weights.
    """
    mg.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = mg.optim.SGD(model.parameters(), lr=lr)
    points, answers = mg.tensor(POINTS), mg.tensor(ANSWERS)

    def mean_squared_error() -> mg.Tensor:
        return ((model(points) - answers) ** 2).mean()

    loss = mean_squared_error()
    names = {"model": model, "points": points, "answers": answers, "loss": loss}
    graph = mg.graph.trace(loss, names, title="A step of learning the exclusive or")
    loss.backward()  # the same gradients as the graph's
    optimizer.step()
    print(f"loss {loss.item():.4f}, after one step {mean_squared_error().item():.4f}")
    save(graph, output)


if __name__ == "__main__":
    run(main)
