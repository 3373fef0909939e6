"""Whatever the program, its graph folds, unfolds and can be drawn: modules in modules, shared, called again,
around one another, with results in parts, checkpoints and second derivatives."""

from xml.etree import ElementTree

import pytest

import minigrad as mg
from minigrad.graph import named_scope


@pytest.mark.parametrize(
    "text", ["\x00", "\x0b\x1b[1m", "\udc80", "</script><!--", '"\\', "&amp;]]>", "名前 ×"]
)
def test_unusual_characters_in_names_can_be_drawn(text, tmp_path):
    x = mg.ones(3, requires_grad=True)
    graph = mg.graph.trace((x * 2).sum(), {f"x{text}": x}, title=f"title {text}")
    for suffix in ("svg", "html", "dot"):
        graph.save(tmp_path / f"graph.{suffix}")
    words = "".join(ElementTree.parse(tmp_path / "graph.svg").getroot().itertext())
    shown = text if text.isprintable() else "\ufffd"
    assert f"title {shown}" in words
    assert f"x{shown}" in words
    assert "x" + text in graph.parameters


def test_named_scopes_can_be_nested_and_used_as_decorators():
    scope = named_scope("s")
    x = mg.ones(3, requires_grad=True)

    @scope
    def squared(x):
        return x * x

    with scope, scope:
        y = squared(x)
    z = y.sum()
    paths = [group.path for group in mg.graph.trace(z).groups]
    assert paths == ["", "s", "s.s", "s.s.s"]
    with pytest.raises(mg.MinigradError, match="a scope's name must be a string, got 3"):
        named_scope(3)


def test_traced_graphs_are_immutable():
    x = mg.ones(3, requires_grad=True)
    graph = mg.graph.trace((x * 2).sum(), {"x": x})
    for array in (graph.parameters["x"], graph.vertices[0].value.numbers):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2
    with mg.no_grad():
        x.zero_()
    assert graph.parameters["x"].tolist() == graph.vertices[0].value.numbers.tolist() == [1, 1, 1]
