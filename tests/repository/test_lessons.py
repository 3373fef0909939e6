"""The lessons' form: a question, one picture, one experiment, an exercise, a summary, and little to read."""

import ast
import importlib
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minitransformer.cli.lesson import cells, lessons, minutes
from minitransformer.learn import exercises, find

ROOT = Path(__file__).parents[2]
LESSONS = [*lessons().values()]
PAPER = '["Attention Is All You Need"](https://arxiv.org/abs/1706.03762)'
SECTIONS = ["Change one line", "Exercise", "Summary"]


def name_of(lesson):
    return lesson.stem


all_lessons = pytest.mark.parametrize("lesson", LESSONS, ids=name_of)


def number_of(lesson):
    return int(lesson.stem[:2])


def prose(lesson):
    return "\n\n".join(text for kind, text, _ in cells(lesson) if kind == "markdown")


def section(lesson, heading):
    return re.split(rf"\n## {heading}.*\n", prose(lesson))[1].split("\n## ")[0]


def code(lesson):
    return ast.parse(lesson.read_text(encoding="utf-8"))


def calls(lesson):
    nodes = [node for node in ast.walk(code(lesson)) if isinstance(node, ast.Call)]
    return [node.func.id for node in nodes if isinstance(node.func, ast.Name)]


@all_lessons
def test_lessons_open_with_one_question_and_the_paper(lesson):
    kind, text, _ = cells(lesson)[0]
    title, question, *_ = text.split("\n\n")
    assert kind == "markdown"
    assert title.startswith(f"# {number_of(lesson)}. ")
    assert re.match(r"\*\*[^*]+\?\*\* \(", question)
    assert PAPER in re.sub(r"\s+", " ", text)


@all_lessons
def test_lessons_have_all_sections(lesson):
    headings = [each.split(",")[0] for each in re.findall(r"^## (.+)", prose(lesson), re.MULTILINE)]
    assert headings[-3:] == SECTIONS
    assert "<details><summary>Answer</summary>\n" in section(lesson, "Change one line")
    assert len(re.findall(r"^- ", section(lesson, "Summary"), re.MULTILINE)) == 3
    assert prose(lesson).count("<details>") == prose(lesson).count("\n</details>")
    assert calls(lesson).count("show") == 1
    assert calls(lesson).count("predict") >= 1
    assert 1 <= sum(isinstance(node, ast.Assert) for node in ast.walk(code(lesson))) <= 5


@all_lessons
def test_lessons_are_short_to_read(lesson):
    assert minutes(lesson) <= (5 if lesson is LESSONS[0] else 20)


@all_lessons
def test_lessons_refer_to_no_text_except_the_paper(lesson):
    assert not re.search(r"\bdocuments?\b|\btexts? prints?\b", prose(lesson))


@all_lessons
def test_lessons_are_listed_in_the_course_table(lesson):
    title = cells(lesson)[0][1].partition("\n")[0].partition(". ")[2]
    course = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    assert f"| {number_of(lesson)}. [{title}](../demos/lessons/{lesson.name}) |" in course


@all_lessons
def test_lessons_name_their_exercises_and_no_later_ones(lesson):
    named = {find(name) for name in re.findall(r"`minitransformer learn (\w+)`", prose(lesson))}
    assert {each for each in exercises() if each.lesson == number_of(lesson)} <= named
    assert all(each.lesson <= number_of(lesson) for each in named)


def test_lessons_are_numbered_and_name_the_next():
    assert [*lessons()] == list(range(1, len(LESSONS) + 1))
    for lesson, following in pairwise(LESSONS):
        assert f"`minitransformer lesson {number_of(following)}`" in section(lesson, "Summary")


def test_lesson_predictions_must_be_finite_numbers(monkeypatch):
    monkeypatch.syspath_prepend(LESSONS[0].parent)
    lesson = importlib.import_module("lesson")
    assert lesson._parse("0.5", None) == 0.5
    assert lesson._parse("nan", None) is None


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: -x,
        lambda x, y: 1 - x, lambda x, y: 1 / x, lambda x, y: x**3, lambda x, y: x.exp(),
        lambda x, y: x.log(), lambda x, y: (x - 1).relu(), lambda x, y: x @ y, lambda x, y: x.sum(0),
        lambda x, y: x.mean(-1, keepdims=True), lambda x, y: x.reshape((9,)),
        lambda x, y: x.permute((1, 0)), lambda x, y: x[[0, 2, 0]], lambda x, y: x + y[0] * x[:, :1],
    ],
)  # fmt: skip
def test_the_engine_of_lesson_3_matches_minigrad_gradients(operation, monkeypatch):
    monkeypatch.syspath_prepend(LESSONS[0].parent)
    engine = importlib.import_module("engine")
    arrays = np.random.default_rng(0).uniform(0.5, 2, size=(2, 3, 3))
    ours = [engine.Tensor(array) for array in arrays]
    theirs = [mg.tensor(array, requires_grad=True) for array in arrays]
    for x, y in (ours, theirs):
        (operation(x, y) ** 2).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.grad is None) == (other.grad is None)
        if mine.grad is not None:
            np.testing.assert_allclose(mine.grad, other.grad)
