"""Editors know every method of a tensor."""

import ast

import minigrad as mg
from tools.stub import TARGET, generate


def test_the_stub_is_up_to_date_with_its_generator():
    assert generate() == TARGET.read_text(encoding="utf-8"), "run: python -m tools.stub"


def test_stub_and_class_declare_every_tensor_attribute():
    shown = set()
    for path in (TARGET, TARGET.with_name("tensor.py")):
        classes = [x for x in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(x, ast.ClassDef)]
        for node in ast.walk(classes[0]):
            if isinstance(node, ast.FunctionDef):
                shown.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                shown.add(node.target.id)
    assert shown >= {name for name in dir(mg.Tensor) if name[0] != "_" and hasattr(mg.Tensor, name)}
