"""The demos that draw graphs: each does what its first lines say, and what it draws can be read."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

DEMOS = Path(__file__).parents[3] / "demos"


@pytest.fixture
def demo(tmp_path):
    """Runs a demo in an empty folder; gives what subprocess gives."""

    def run(name, *argv):
        command = [sys.executable, str(DEMOS / f"graph_{name}.py"), *map(str, argv)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")

    return run


def words_of(path):
    """All that can be read in a picture."""
    tree = ElementTree.parse(path)
    assert tree.getroot().tag.endswith("svg")
    return " ".join(" ".join(tree.getroot().itertext()).split())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("expression", ["a", "b", "c", "f", "-8"]),
        ("mlp", ["0", "1", "2", "Linear", "Tanh"]),
        ("attention_head", ["scores", "softmax", "mixture", "W_Q", "W_K", "W_V"]),
        ("transformer", ["encoder", "decoder", "×2"]),
    ],
)
def test_graph_demos_draw_the_expected_words(demo, tmp_path, name, expected):
    done = demo(name, "-o", "drawn.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert "drawn.svg: " in done.stdout
    words = words_of(tmp_path / "drawn.svg")
    assert [word for word in expected if word not in words] == []


def test_the_expression_demo_has_the_well_known_gradients(demo):
    lines = demo("expression", "-o", "e.dot").stdout.splitlines()[:-1]
    found = {}
    for line in lines:
        name, value, _, gradient = line.replace("=", " ").split()
        found[name] = float(value), float(gradient)
    assert found == {
        "a": (2, 6), "b": (-3, -4), "c": (10, -2), "f": (-2, 4), "e": (-6, -2), "d": (4, -2), "L": (-8, 1),
    }  # fmt: skip


def test_the_mlp_demo_lowers_its_loss(demo):
    before, after = demo("mlp", "-o", "m.dot").stdout.splitlines()[0].split(", after one step ")
    assert float(after) < float(before.removeprefix("loss "))


@pytest.mark.parametrize(
    "argv", [("-o", "drawn.txt"), ("-o", "nowhere/drawn.svg", "--fast"), ("--seed", "x")]
)
def test_invalid_demo_arguments_are_explained(demo, tmp_path, argv):
    done = demo("mlp", *argv)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr
    assert list(tmp_path.iterdir()) == []
