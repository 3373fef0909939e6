"""The API reference has every public name and every op, each with a summary."""

import re

import pytest

import minigrad as mg
import minitransformer
from tools.reference import families
from tools.site import names

api = pytest.importorskip("tools.site.api", reason="it needs the extra docs")
ops = pytest.importorskip("tools.site.ops")


MODULES = (
    "minigrad", "minigrad.nn", "minigrad.nn.functional", "minigrad.optim", "minigrad.optim.lr_scheduler",
    "minigrad.func", "minigrad.linalg", "minigrad.special", "minigrad.graph", "minigrad.autograd",
)  # fmt: skip


def is_module(path, name):
    return type(getattr(names.find(path), name)) is type(mg)


@pytest.mark.parametrize("path", MODULES)
def test_every_public_name_of_a_module_has_a_line(path):
    known = names.by_name()
    public = [name for name in names.public_names(path, names.find(path)) if not is_module(path, name)]
    listed = {name for page in names.pages().values() for rows in page.rows.values() for name, _ in rows}
    assert public
    assert [name for name in public if f"{path}.{name}" not in known and name not in listed] == []


def test_every_public_name_of_minitransformer_has_an_entry():
    known = names.by_name()
    public = [name for name in minitransformer.__all__ if not name.startswith("_")]
    assert [name for name in public if f"minitransformer.{name}" not in known] == []


def test_an_object_has_one_entry():
    entries = [entry.name for entry in names.entries()]
    assert len(entries) == len(set(entries)) > 900


def test_every_entry_has_a_summary():
    empty = [e.name for e in names.entries() if not (api.summary(e.thing) or api.value_of(e.thing))]
    assert empty == ["minigrad.dtype"]  # NumPy's


def test_no_page_shows_an_address_in_memory():
    shown = {page.name: api.text_of(page) for page in names.pages().values()}
    assert [name for name, text in shown.items() if re.search("at 0x[0-9a-f]+", text)] == []


def test_every_op_stands_on_one_page():
    found = [kinds for sections in ops.grouped().values() for kinds in sections.values()]
    on_pages = [op.name for kinds in found for infos in kinds.values() for op in infos]
    assert sorted(on_pages) == sorted(op.name for infos in families().values() for op in infos)


def test_an_entry_leads_to_the_derivative_and_back():
    page = api.text_of(names.pages()["api/minigrad.nn.functional"])
    assert "{py:function} layer_norm(" in page
    assert "(#op-layer_norm)" in page
    (layer_norm,) = [op for op in families()["minigrad.ops.normalization"] if op.name == "layer_norm"]
    assert "`minigrad.nn.functional.layer_norm`" in ops.described(layer_norm)
