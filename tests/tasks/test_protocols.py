"""Tasks have data, an objective and scores; what only some of them do is in protocols of its own."""

import inspect
from types import SimpleNamespace

import pytest

from minitransformer.cli.wording import WORDINGS, command, predicts, unsupported_error, verb_of, wording_of
from minitransformer.recipes import load_recipe
from minitransformer.tasks import TASKS, ArrayTask, ExampleTask, PairTask, Task, Translation, task_class
from minitransformer.tasks.protocols import (
    Continues,
    Objective,
    Predicts,
    ReadsExamples,
    ReadsFiles,
    ReadsTexts,
    Scores,
    TaskData,
    Translates,
)

PACKAGE = sorted(name for name in TASKS if TASKS[name].__module__.startswith("minitransformer."))
PARTS = (TaskData, Objective, Scores, ReadsTexts)
OF_SOME = (ReadsFiles, ReadsExamples, Translates, Continues, Predicts)
WITH_DEFAULTS = {"own_data", "read_test_file"}  # of ReadsFiles, where a task has `read_file`
SHARED = {
    "from_data",
    "accuracy",
    "live",
    "validation",
    "order",
}  # for the base itself and for validations


def members(protocol):
    annotated = protocol.__annotations__
    return {name for name in (*vars(protocol), *annotated) if not name.startswith("_")}


def test_a_member_belongs_to_one_protocol():
    names = [name for protocol in (*PARTS, *OF_SOME) for name in members(protocol)]
    assert len(names) == len(set(names))


def test_the_base_has_members_of_the_protocols_and_nothing_else():
    own = {name for name in (*vars(Task), *Task.__annotations__) if not name.startswith("_")}
    assert own - set().union(*map(members, PARTS)) == SHARED | WITH_DEFAULTS


def test_the_base_does_nothing_that_only_some_tasks_do():
    assert not any(hasattr(Task, name) for name in set().union(*map(members, OF_SOME)) - WITH_DEFAULTS)


@pytest.mark.parametrize("name", PACKAGE)
def test_each_task_has_all_members_of_the_protocols(name):
    task = task_class(name)
    for protocol in PARTS:
        for member in members(protocol):
            found = inspect.getattr_static(task, member)
            assert found is not inspect.getattr_static(protocol, member, protocol), member


VERBS = {
    "translation": "translate", "text-to-text": "translate", "denoising": "translate",
    "language-modelling": "generate",
}  # fmt: skip


@pytest.mark.parametrize("name", PACKAGE)
def test_a_task_of_the_package_has_words_and_a_verb(name):
    task = task_class(name)
    assert name in WORDINGS
    assert verb_of(task) == VERBS.get(name, "predict")
    assert isinstance(task, ReadsFiles)
    assert isinstance(task, Predicts) == (name not in ("translation", "text-to-text", "language-modelling"))


def test_a_task_of_ones_own_has_the_words_of_the_one_that_it_is_derived_from():
    class Loud(Translation):
        name = "loud"

    class Named(Loud):
        name = "named"
        noun = "eager model"

    class Scored(ExampleTask):
        name = "scored"
        verb = "evaluate"

    assert wording_of(Loud) == WORDINGS["translation"]
    assert wording_of(Named).noun == "eager model"
    assert verb_of(Named) == "translate"
    assert (wording_of(Scored).noun, verb_of(Scored)) == ("model", "evaluate")
    assert [verb_of(task) for task in (Task, ArrayTask, PairTask)] == ["evaluate", "evaluate", "translate"]


def test_an_example_task_predicts_by_predictions_or_by_reading_and_predicting():
    read = classmethod(lambda cls, run, texts: texts)
    predict = lambda self, model, examples: []
    reads = type("Reads", (ExampleTask,), {"read_example": read})
    both = type("Both", (reads,), {"predict": predict})
    own = type("Own", (ExampleTask,), {"predictions": classmethod(lambda cls, run, inputs, top=5: [])})
    alone = type("Alone", (ExampleTask,), {"predict": predict})
    assert [predicts(task) for task in (ExampleTask, reads, alone, both, own)] == [False] * 3 + [True] * 2


def test_what_a_run_does_not_do_is_an_error_that_names_what_it_does():
    run = SimpleNamespace(folder="run", task=task_class("tagging"), recipe=load_recipe("bert-tag"))
    assert str(unsupported_error(run, "translate")) == (
        "run is a tagger, which cannot translate.\nUse `minitransformer predict run`."
    )
    assert command(load_recipe("dialogue"), "run", [["hello"]]) == "minitransformer chat run"
    assert command(load_recipe("reverse"), "run", [["a b"]]) == "minitransformer translate run 'a b'"
