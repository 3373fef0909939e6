"""What the command line calls tasks, and which verb uses a trained model of each."""

from types import SimpleNamespace

import pytest

from minitransformer.cli.wording import WORDINGS, command, unsupported_error, verb_of, wording_of
from minitransformer.recipes import load_recipe
from minitransformer.tasks import TASKS, ArrayTask, PairTask, Task, Translation, task_class

PACKAGE = sorted(name for name in TASKS if TASKS[name].__module__.startswith("minitransformer."))
VERBS = {
    "translation": "translate", "text-to-text": "translate", "denoising": "translate",
    "causal-translation": "translate",
    "language-modelling": "generate",
}  # fmt: skip


@pytest.mark.parametrize("name", PACKAGE)
def test_every_builtin_task_has_a_wording_and_a_verb(name):
    task = task_class(name)
    assert name in WORDINGS
    assert verb_of(task) == VERBS.get(name, "predict")
    assert hasattr(task, "read_file")
    assert hasattr(task, "read") == (name != "language-modelling")


def test_a_derived_task_inherits_its_wording():
    class Loud(Translation):
        name = "loud"

    class Named(Loud):
        name = "named"
        noun = "eager model"

    class Scored(Task):
        name = "scored"
        verb = "evaluate"

    class Reads(Task):
        read = classmethod(lambda cls, run, texts: texts)

    assert wording_of(Loud) == WORDINGS["translation"]
    assert wording_of(Named).noun == "eager model"
    assert verb_of(Named) == "translate"
    assert (wording_of(Scored).noun, verb_of(Scored)) == ("model", "evaluate")
    assert [verb_of(task) for task in (Task, ArrayTask, PairTask)] == ["evaluate", "evaluate", "translate"]
    assert verb_of(Reads) == "predict"


def test_an_unsupported_verb_names_the_supported_ones():
    run = SimpleNamespace(folder="run", task=task_class("tagging"), recipe=load_recipe("bert-tag"))
    assert str(unsupported_error(run, "translate")) == (
        "run is a tagger, which cannot translate.\nUse `minitransformer predict run`."
    )
    assert command(load_recipe("dialogue"), "run", [["hello"]]) == "minitransformer chat run"
    assert command(load_recipe("reverse"), "run", [["a b"]]) == "minitransformer translate run 'a b'"
