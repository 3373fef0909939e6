"""Examples in docstrings (`>>>`) give what they show."""

import ast
import doctest
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

ROOT = Path(__file__).parents[2]
NAMES = {"np": np, "mg": mg, "nn": nn, "optim": optim, "F": nn.functional}  # as the reference says
PARSER = doctest.DocTestParser()


def docstrings(file):
    """(name, docstring, line) of everything in a file that has one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            name = getattr(node, "name", file.stem)
            yield name, ast.get_docstring(node), node.body[0].lineno


def examples():
    for package in ("minigrad", "minitransformer"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for name, text, line in docstrings(file) if ">>> " in file.read_text(encoding="utf-8") else ():
                if ">>> " in text:
                    place = f"{file.relative_to(ROOT).as_posix()}:{name}"
                    yield pytest.param(
                        PARSER.get_doctest(text, dict(NAMES), place, str(file), line), id=place
                    )


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES)
def test_docstring_examples_print_the_shown_output(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = []
    result = doctest.DocTestRunner().run(example, out=lines.append, clear_globs=False)
    assert result.attempted > 0
    assert result.failed == 0, "".join(lines)


def test_commonly_used_names_have_docstring_examples():
    places = {example.id.rpartition(":")[2] for example in EXAMPLES}
    assert places >= {
        "tensor", "backward", "no_grad", "gradcheck", "trace", "Linear", "LayerNorm", "Embedding", "softmax",
        "cross_entropy", "scaled_dot_product_attention", "Adam", "clip_grad_norm_", "MultiHeadAttention",
        "causal_mask", "padding_mask", "Transformer", "GPT", "BERT", "generate", "Tokenizer", "Trainer",
        "record_attention",
    }  # fmt: skip
