"""Missing names raise errors that say what to use instead, and that exists."""

import importlib
import re
from operator import attrgetter

import pytest

import minigrad as mg
from minigrad.more.missing_names import INSTEAD, TABLE
from tests.leaves import for_each

ROOTS = {"mg": mg, "nn": mg.nn, "F": mg.nn.functional, "optim": mg.optim, "x": mg.Tensor}
NAMED = re.compile(r"\b(?:mg|nn|F|np|optim|x|minitransformer)(?:\.\w+)+")


def exists(name):
    first, _, rest = name.partition(".")
    root = ROOTS.get(first) or importlib.import_module({"np": "numpy"}.get(first, first))
    for module in (root.__name__ + "." + rest, root.__name__ + "." + rest.rpartition(".")[0]):
        try:
            importlib.import_module(module)
        except ImportError:
            continue
    try:
        attrgetter(rest)(root)
    except AttributeError:
        return False
    return True


@for_each(INSTEAD.values())
def test_suggested_replacements_exist(advice):
    assert [name for name in NAMED.findall(advice) if not exists(name)] == []


@for_each(TABLE)
def test_a_missing_name_says_what_to_use(name):
    path, _, missing = name.rpartition(".")
    try:
        owner = attrgetter(path)(mg) if path else mg
    except AttributeError:
        return  # `nn.parallel` is missing, and so is all in it
    assert not hasattr(owner, missing)
    with pytest.raises(AttributeError, match=rf"{missing} does not exist\.\n") as caught:
        getattr(owner, missing)
    assert str(caught.value).endswith(TABLE[name])


@pytest.mark.parametrize(
    ("owner", "name", "meant"),
    [
        (mg, "sofmax", "softmax"),
        (mg.nn, "Liner", "Linear"),
        (mg.nn.functional, "rellu", "relu"),
        (mg.optim, "AdmW", "AdamW"),
        (mg.optim, "Adamw", "AdamW"),
        (mg.nn, "Relu", "ReLU"),
        (mg.linalg, "invv", "inv"),
        (mg.utils.data, "DataLoder", "DataLoader"),
    ],
)
def test_misspelled_names_suggest_a_close_match(owner, name, meant):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'.\nDid you mean '{meant}'") as caught:
        getattr(owner, name)
    assert not isinstance(caught.value, mg.MissingNameError)
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        owner.xyzzy  # noqa: B018


def test_importing_a_missing_name_says_what_to_use():
    with pytest.raises(ImportError, match=r"minigrad.nn.Transformer does not exist\.\n.*minitransformer"):
        from minigrad.nn import Transformer  # noqa: F401


def test_unknown_names_raise_the_usual_errors():
    with pytest.raises(AttributeError, match="module 'minigrad' has no attribute 'sofmax'"):
        _ = mg.sofmax
    with pytest.raises(ImportError, match="cannot import name 'sofmax'"):
        from minigrad import sofmax  # noqa: F401
