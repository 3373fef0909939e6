"""Every exercise: the blank gets a helpful verdict, typical mistakes get their own, our solution is right.

The mistakes are in tests/learn/mistakes: `old` in our solution is replaced with `new`, and `verdict` is a
part of what the tutor must say.
"""

import tomllib
from pathlib import Path

import pytest

from minitransformer.learn import NAMES, check, exercises, find
from minitransformer.learn.exercise import REASONING

MISTAKES = Path(__file__).parent / "mistakes"

each = pytest.mark.parametrize("exercise", exercises(), ids=NAMES)


def mistakes_of(name):
    return tomllib.loads((MISTAKES / f"{name}.toml").read_text(encoding="utf-8"))["mistake"]


def outcome_of(exercise, source, tmp_path):
    file = tmp_path / exercise.file_name
    file.write_text(source, encoding="utf-8")
    return check(exercise, file)


@each
def test_the_reference_solution_passes(exercise, tmp_path):
    outcome = outcome_of(exercise, exercise.solution, tmp_path)
    assert outcome.passed, outcome.verdict


@each
def test_the_unedited_exercise_is_reported_as_not_written(exercise, tmp_path):
    outcome = outcome_of(exercise, exercise.blank, tmp_path)
    assert not outcome.passed
    assert outcome.verdict.startswith("not written yet: line ")
    assert "raise NotImplementedError" in outcome.advice


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [(exercise, mistake) for exercise in exercises() for mistake in mistakes_of(exercise.name)],
    ids=lambda value: getattr(value, "name", "") or value["new"][:30],
)
def test_each_typical_mistake_gets_its_verdict(exercise, mistake, tmp_path):
    assert mistake["old"] in "".join(exercise.answers)
    outcome = outcome_of(exercise, exercise.solution.replace(mistake["old"], mistake["new"], 1), tmp_path)
    assert not outcome.passed
    assert mistake["verdict"] in f"{outcome.verdict}\n{outcome.advice}"


@each
def test_exercises_have_mistakes_hints_and_a_blank(exercise):
    lines = [line for line in "".join(exercise.answers).splitlines() if line.strip()]
    assert 3 <= len(lines) <= 15
    mistakes = mistakes_of(exercise.name)
    assert len({mistake["verdict"] for mistake in mistakes}) >= 3
    assert len(exercise.hints) == 3
    assert exercise.reasoning in {*REASONING, ""}
    assert exercise.task.count("\n") >= 3
    assert not any(answer.strip() in exercise.blank for answer in exercise.answers)


@pytest.mark.parametrize(
    ("name", "old", "new", "verdict"),
    [
        ("softmax", "y * (g - weighted_sum)", "2 * y * (g - weighted_sum)", "off by a constant factor"),
        ("softmax", "y * (g - weighted_sum)", "(y * (g - weighted_sum))[:, ::-1]", "in the wrong places"),
        ("layer_norm", "h * mean_of_uh)", "h * h * mean_of_uh)", "couples elements along axis 1"),
        ("multiply", "g * y", "g * g * y", "no g², no constant added to it, no condition on g"),
        ("multiply", "g * y", "g + y", "no g², no constant added to it, no condition on g"),
    ],
)
def test_an_unlisted_mistake_gets_the_gradcheck_verdict(name, old, new, verdict, tmp_path):
    exercise = find(name)
    assert old in exercise.solution
    outcome = outcome_of(exercise, exercise.solution.replace(old, new, 1), tmp_path)
    assert not outcome.passed
    assert verdict in f"{outcome.verdict}\n{outcome.advice}"


def test_errors_in_an_answer_file_are_reported_with_the_line(tmp_path):
    exercise = exercises()[0]
    source = exercise.solution
    line = source[: source.index("return g * y")].count("\n") + 1
    bad = outcome_of(exercise, source.replace("return g * y", "return g *"), tmp_path)
    assert bad.verdict == f"line {line} is not valid Python: invalid syntax"
    missing = outcome_of(exercise, source.replace("def multiply", "def times"), tmp_path)
    assert missing.verdict == "01_multiply.py does not define multiply"
    name = outcome_of(exercise, source.replace("z = x * y", "z = x * w"), tmp_path)
    assert name.verdict.startswith("line 16 raised NameError: name 'w' is not defined")


@pytest.mark.parametrize(
    ("name", "old", "new", "verdict"),
    [
        ("softmax", "(g - weighted_sum)", "(g - weighted_sum)[:, 0, 0]", "line 25 raised IndexError"),
        ("softmax", "return y * (g", "y * (g", "must return an array, got NoneType"),
        ("attention", "return out, weights", "return None", "attention returns something other than a pair"),
        ("attention", "return out, weights", "return out.numpy(), weights.numpy()", "`out` of type ndarray"),
        ("attention", "return out, weights", "return out, (weights if mask is None else weights.numpy())",
         "`weights` of type ndarray, not a tensor"),
        ("adam", "return parameter, m, v", "return m, v", "returns something other than 3 values"),
        ("adam", "t, lr=1e-3", "lr=1e-3", "the check cannot use the answer: TypeError"),
        ("warm_up", "def ", "import sys\nsys.exit(0)\ndef ", "raised SystemExit"),
    ],
)  # fmt: skip
def test_unusable_answers_are_explained(name, old, new, verdict, tmp_path):
    exercise = find(name)
    assert old in exercise.solution
    outcome = outcome_of(exercise, exercise.solution.replace(old, new, 1), tmp_path)
    assert not outcome.passed
    assert verdict in outcome.verdict
    assert outcome.advice
