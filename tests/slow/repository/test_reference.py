"""The reference of all ops can be built, is true, and its mathematics can be shown; `help` shows it too."""

import functools
import inspect
import re

import pytest

import minigrad as mg
from minigrad.core.registry import ops, registry
from minigrad.ops import differentiable
from tools import reference
from tools.reference import ROOT, TARGET, formulas, generate


@functools.cache
def built():
    return generate()


F = mg.nn.functional


def test_the_reference_command_writes_the_page(tmp_path, monkeypatch):
    target = tmp_path / "reference" / "ops.md"
    monkeypatch.setattr("sys.argv", ["reference", "-o", str(target)])
    reference.main()
    page = target.read_text(encoding="utf-8")
    assert page.count("\n### ") == built().count("\n### ")
    files = set(re.findall(r"\]\(([^#)]+\.py)\)", page))
    assert files
    assert all((target.parent / file).is_file() for file in files)


def test_git_ignores_the_generated_reference():
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"{TARGET.parent.relative_to(ROOT)}/" in ignored


def test_every_op_has_an_entry_and_every_link_resolves():
    headings = re.findall(r"^##+ (.+)$", built(), re.MULTILINE)
    ours = {r.name for r in registry.values() if r.source.__module__.startswith("minigrad.")}
    assert ours <= set(headings)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", built())) <= anchors
    files = set(re.findall(r"\]\(\.\./([^)]+)\)", built()))
    assert all((TARGET.parents[1] / file).is_file() for file in files)


def test_formulas_belong_to_existing_arguments():
    for record in registry.values():
        assert len(record.latex) <= len(inspect.signature(record.source).parameters), record.name


def test_a_formula_can_be_shown_as_mathml():
    convert = pytest.importorskip("latex2mathml.converter").convert
    for formula in {formula for _, formula in formulas()}:
        shown = convert(formula)
        assert shown.startswith("<math"), formula
        unknown = re.findall(r"\\\w+", re.sub(r"&#x0*5C;", r"\\", shown))
        assert not unknown, formula
        assert formula.count("{") == formula.count("}"), formula


# ---------------------------------------------------------------- help


def test_help_shows_the_gradients_of_every_op_that_has_formulas():
    shown = [r for r in registry.values() if r.latex and r.source.__module__.startswith("minigrad.")]
    assert len(shown) > 80
    for record in shown:
        text = inspect.getdoc(record.call)
        assert text.startswith(inspect.getdoc(record.source) or "Gradients of")
        parameters = inspect.signature(record.source).parameters
        for name, formula in zip(parameters, record.latex, strict=False):
            assert formula is None or f"\n    {name}: {formula}" in text, record.name


@pytest.mark.parametrize(
    "function",
    [
        mg.softmax, mg.Tensor.softmax, F.softmax, F.log_softmax, F.cross_entropy, F.layer_norm, F.linear,
        F.embedding, F.dropout, F.scaled_dot_product_attention, F.gelu,
    ],
    ids=lambda function: f"{function.__module__}.{function.__name__}",
)  # fmt: skip
def test_help_shows_gradients_of_checked_functions(function):
    for formula in registry[function.__name__].latex:
        assert formula is None or formula in function.__doc__


def test_help_shows_the_gradients_of_users_ops():
    @differentiable(latex=(r"2\,g\,x",))
    def square_of(x, /):
        """x * x.

        A second paragraph.
        """
        return x * x, (lambda g: 2 * g * x,)

    @differentiable
    def cube_of(x, /):
        """x ** 3."""
        return x**3, (lambda g: 3 * g * x**2,)

    assert inspect.getdoc(square_of) == (
        "x * x.\n\nA second paragraph.\n\n"
        "Gradients of y = square_of(x), where g is the gradient of y (in LaTeX):\n"
        r"    x: 2\,g\,x"
    )
    assert cube_of.__doc__ == "x ** 3."
    for name in ("square_of", "cube_of"):
        del registry[name], ops[name]
