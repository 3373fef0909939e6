"""Each public name of version 0.2.0 is still there: `public_names.txt` lists them, by module."""

import importlib
from pathlib import Path

import pytest

import minigrad as mg
from minigrad.parts import absent_parts

LIST = (Path(__file__).with_name("public_names.txt")).read_text(encoding="utf-8")
SECTIONS = [section.partition("]\n") for section in LIST.split("\n[")[1:]]
NAMES = {module: names.split() for module, _, names in SECTIONS}


def find(path):
    """The module, or the class in a module, of that path."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path and not path.startswith(f"{error.name}."):
            raise
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def is_there(place, path, name):
    """Whether a module or class has an attribute or a submodule of that name."""
    if name in dir(place) or hasattr(place, name):
        return True
    try:
        importlib.import_module(f"{path}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def test_the_list_is_read_whole():
    assert sum(map(len, NAMES.values())) > 2000


@pytest.mark.parametrize("path", NAMES)
def test_names_are_there(path, request):
    """In a copy without a part (tools/without.py), those that are not say which it is."""
    absent = absent_parts()
    is_whole = not absent and not request.config.getoption("--without")
    try:
        place = find(path)
    except (AttributeError, ImportError):  # a module of a part, or one that needs it
        assert not is_whole
        return
    missing = [name for name in NAMES[path] if not is_there(place, path, name)]
    asked = mg.zeros(1) if place is mg.Tensor else place
    said = f"is without {' and '.join(absent)}" if absent and path.startswith("minigrad") else None
    for name in () if is_whole else missing:
        if name.startswith("__"):  # NumPy's protocol, which asks for it in vain
            continue
        with pytest.raises(AttributeError, match=said):
            getattr(asked, name)
    assert not is_whole or not missing
