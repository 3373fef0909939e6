"""The lessons in demos/lessons: their order, their parts, and that what they send the reader to exists."""

import ast
import dataclasses
import importlib
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from minitransformer.learn import exercises, find

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "demos" / "lessons").glob("[0-9]*.py"))
MOST_WORDS = 120  # between two cells of code


def name_of(lesson):
    return lesson.stem


lessons = pytest.mark.parametrize("lesson", LESSONS, ids=name_of)


def cells(lesson):
    """Pairs (kind, text): "markdown" without its comment signs, or "code"."""
    parts = re.split(r"^# %%(.*)\n", lesson.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not parts[0].strip()
    found = []
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        if "[markdown]" in kind:
            found.append(("markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()))
        else:
            found.append(("code", text.strip()))
    return found


def prose(lesson):
    return "\n\n".join(text for kind, text in cells(lesson) if kind == "markdown")


def defined(file):
    """The names of all functions, classes and variables that a file assigns, at any depth."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def section(lesson, heading):
    return prose(lesson).split(f"\n## {heading}\n")[1].split("\n## ")[0]


@lessons
def test_a_lesson_begins_with_what_one_will_be_able_to_do(lesson):
    first = cells(lesson)[0]
    assert first[0] == "markdown"
    assert re.match(rf"# {int(lesson.stem[:2])}\. .+\n\nAfter this lesson you can ", first[1])


@lessons
def test_prose_between_two_cells_is_short(lesson):
    pieces = [text for kind, text in cells(lesson) if kind == "markdown"]
    for text in pieces:
        words = re.sub(r"\$\$.*?\$\$|\|.*\||```.*?```", "", text, flags=re.DOTALL).split()
        assert len(words) <= MOST_WORDS, f"{len(words)} words: {text[:60]}"
    kinds = [kind for kind, _ in cells(lesson)]
    assert ("markdown", "markdown") not in list(pairwise(kinds))


@lessons
def test_a_lesson_predicts_shows_checks_and_can_be_changed(lesson):
    called = [
        node.func.id
        for node in ast.walk(ast.parse(lesson.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    for name in ("predict", "show", "control", "read_settings"):
        assert name in called, name
    assert called.count("check") >= 4


@lessons
def test_a_lesson_quotes_the_paper(lesson):
    assert re.search(r"^> ", prose(lesson), re.MULTILINE)
    assert "Attention Is All You Need" in prose(lesson)


@lessons
def test_a_lesson_ends_with_two_exercises_and_what_to_read(lesson):
    assert len(re.findall(r"^\d+\. ", section(lesson, "Exercises"), re.MULTILINE)) == 2
    lines = re.findall(r"^- (.+)", section(lesson, "Read next"), re.MULTILINE)
    assert len(lines) >= 2
    for line in lines:
        names = re.findall(r"`([^`]+)`", line)
        file = ROOT / names[0]
        assert file.is_file(), names[0]
        if len(names) > 1:
            assert names[1] in defined(file), line


@lessons
def test_a_lesson_is_in_the_table_of_the_course(lesson):
    number, title = re.match(r"# (\d+)\. (.+)", cells(lesson)[0][1]).groups()
    course = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    assert f"| {number}. [{title}](../demos/lessons/{lesson.name}) |" in course


@lessons
def test_a_lesson_names_all_of_its_exercises(lesson):
    named = [find(number) for number in re.findall(r"`minitransformer learn (\d+)`", prose(lesson))]
    expected = {exercise.name for exercise in exercises() if exercise.lesson == int(lesson.stem[:2])}
    assert expected <= {exercise.name for exercise in named}
    assert all(exercise.lesson <= int(lesson.stem[:2]) for exercise in named)


def test_lessons_are_numbered_without_gaps_and_each_names_the_next():
    assert [int(lesson.stem[:2]) for lesson in LESSONS] == list(range(1, len(LESSONS) + 1))
    for lesson, following in pairwise(LESSONS):
        assert f"`demos/lessons/{following.name}`" in section(lesson, "Read next")


# ---------------------------------------------------------------- lesson.py


@pytest.fixture
def lesson_module(monkeypatch):
    monkeypatch.syspath_prepend(LESSONS[0].parent)
    return importlib.import_module("lesson")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "x"], "--seed: expected an integer, got 'x'"),
        (["--seed", "3.5"], "--seed: expected an integer, got '3.5'"),
        (["--seed", "-1"], "--seed -1 is negative"),
        (["--rate", "x"], "--rate: expected a number, got 'x'"),
        (["--rate", "nan"], "--rate nan is not finite"),
        (["--rate", "-inf"], "--rate -inf is not finite"),
        (["--rat", "1"], "there is no option '--rat'. Did you mean --rate?"),
    ],
)
def test_an_invalid_option_is_explained(lesson_module, words, message, monkeypatch):
    settings = dataclasses.make_dataclass("Lesson", [("rate", float, 1.0)], bases=(lesson_module.Settings,))
    monkeypatch.setattr(sys, "argv", ["01_a_neuron.py", *words])
    with pytest.raises(SystemExit) as stopped:
        lesson_module.read_settings(settings)
    assert str(stopped.value).startswith(f"error: {message}")


def test_a_prediction_is_a_finite_number(lesson_module):
    assert lesson_module._parse("0.5", None) == 0.5
    assert lesson_module._parse("nan", None) is None


def test_a_time_that_misses_is_reported_and_raises_nothing(lesson_module, capsys):
    lesson_module.check_time("a costs more than b", False)
    lesson_module.check_time("b costs less than a", True)
    missed, held = capsys.readouterr().out.splitlines()
    assert missed.startswith("✗ not in this run: a costs more than b")
    assert held == "✓ b costs less than a"
