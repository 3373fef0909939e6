"""The API reference has every public name and every op, each with a summary."""

import inspect
import re

import pytest

import minigrad as mg
import minitransformer
from tools.reference import families
from tools.site.api import FAMILIES, TITLES, lines, public, reference, summary

MODULES = [
    (package, f"{package}.{module}")
    for package, titles in TITLES.items()
    for modules in titles.values()
    for module in modules.split()
]


@pytest.mark.parametrize(("package", "module"), [("minigrad", "minigrad"), *MODULES])
def test_every_public_name_of_a_module_has_a_row(package, module):
    listed = {name for page in reference().pages.values() for rows in page.values() for name in rows}
    assert {*public(package, module)} <= listed


def test_every_public_name_of_minitransformer_has_an_entry():
    assert {f"minitransformer.{name}" for name in minitransformer.__all__[1:]} <= {*reference().things}


def test_every_public_name_of_minigrad_has_a_row():
    listed = {name for page in reference().pages.values() for rows in page.values() for name in rows}
    names = {name for name in mg.__all__ if not inspect.ismodule(getattr(mg, name))}
    assert {name for name in names - listed if name.rstrip("_") not in listed} == {"dtype"}  # NumPy's


def test_every_function_and_class_has_a_summary():
    things = reference().things.items()
    assert [name for name, thing in things if callable(thing) and not summary(thing)] == []


def test_api_tables_contain_no_memory_addresses():
    shown = {title: "\n".join(lines(title)) for title in reference().pages}
    assert [name for name, text in shown.items() if re.search("at 0x[0-9a-f]+", text)] == []


def test_every_op_is_on_exactly_one_page():
    modules = [f"minigrad.{module}" for group in FAMILIES.values() for module in group.split()]
    assert len(modules) == len(set(modules))
    assert {*families()} <= {*modules}
