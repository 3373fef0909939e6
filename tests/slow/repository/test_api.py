"""The API reference has every public name and every op, each with a summary."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import minigrad as mg
import minitransformer
from tools.reference import families
from tools.site.api import FAMILIES, lines, reference, summary

DOCS = Path(__file__).parents[3] / "docs"


def listed():
    names = {name for page in reference().pages.values() for rows in page.values() for name in rows}
    return names | {name.rpartition(".")[2] for name in reference().things}


def without_modules(module, names):
    return {name for name in names if not inspect.ismodule(getattr(import_module(module), name, inspect))}


def test_names_that_the_docs_import_are_listed():
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    imports = re.findall(r"^from ((?:minigrad|minitransformer)[\w.]*) import (\w.*)", pages, re.MULTILINE)
    names = {
        name
        for module, found in imports
        for name in without_modules(module, re.findall(r"(\w+)(?: as \w+)?", found))
    }
    assert len(names) > 30
    assert names - listed() == set()


def test_every_public_name_of_minitransformer_has_an_entry():
    public = {name for name in minitransformer.__all__ if name != "__version__"}
    assert {f"minitransformer.{name}" for name in public} <= {*reference().things}


def test_every_public_name_of_minigrad_has_a_row():
    names = without_modules("minigrad", mg.__all__)
    assert {name for name in names - listed() if name.rstrip("_") not in listed()} == {"dtype"}  # NumPy's


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
