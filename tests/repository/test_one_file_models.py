"""The GPT and the Transformer in one file, demos/gpt.py and demos/transformer.py, train to a stored loss."""

import runpy
from pathlib import Path

import pytest

DEMOS = Path(__file__).parents[2] / "demos"
TEXT = "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer. " * 8


def test_the_one_file_gpt_learns_a_text(capsys):
    loss = runpy.run_path(str(DEMOS / "gpt.py"))["main"](TEXT, steps=12, length=20)
    assert loss == pytest.approx(2.37522, rel=1e-3)
    assert len(capsys.readouterr().out.splitlines()[-1]) == 21


def test_the_one_file_transformer_memorizes_its_sentences(capsys):
    program = runpy.run_path(str(DEMOS / "transformer.py"))
    loss = program["main"](steps=60)
    assert loss == pytest.approx(0.71375, rel=1e-3)
    lines = capsys.readouterr().out.splitlines()[-len(program["PAIRS"]) :]
    assert lines == [f"{a} -> {b}" for a, b in program["PAIRS"].items()]
