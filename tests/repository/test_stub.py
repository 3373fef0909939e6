"""`tensor.pyi` says what Tensor can do, and nothing else."""

import ast

import minigrad as mg
from minigrad.ops import METHODS, PROPERTIES
from tools.stub import SOURCE, generate

COMMITTED = SOURCE.with_suffix(".pyi").read_text(encoding="utf-8")


def normalized(text):
    """Without what differs between versions of Python's unparser."""
    return ast.dump(ast.parse(text))


def test_the_stub_is_what_its_generator_writes():
    assert normalized(generate()) == normalized(COMMITTED), "run: python -m tools.stub"


def test_the_stub_names_every_public_attribute_of_a_tensor():
    (tensor,) = [node for node in ast.parse(COMMITTED).body if isinstance(node, ast.ClassDef)]
    functions = {node.name for node in tensor.body if isinstance(node, ast.FunctionDef)}
    fields = {node.target.id for node in tensor.body if isinstance(node, ast.AnnAssign)}
    public = {name for name in dir(mg.Tensor) if not name.startswith("_") and hasattr(mg.Tensor, name)}
    assert functions | fields >= public
    assert functions >= METHODS.keys() | PROPERTIES.keys()
