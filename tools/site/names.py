"""The public names of both packages, on the pages of the reference where a reader looks for them."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import minigrad
import minitransformer
from minigrad.core.op import OpInfo, info_of
from minigrad.late_names import Late
from minigrad.ops import METHODS

LISTED = Path(__file__).with_name("public_names.txt")

# families of ops by what a reader looks for: pages of functions, and of derivatives (`minigrad` left out)
FAMILIES = {
    "elementwise": (
        "Elementwise functions",
        "core.arithmetic ops.arithmetic ops.rounding ops.elementary more.elementary ops.activations "
        "more.activations more.specials",
    ),
    "comparisons": ("Comparisons and logic", "ops.comparisons ops.logic"),
    "reductions": (
        "Reductions, statistics, scans, sorting",
        "ops.reductions ops.statistics ops.scans ops.sorting more.counting more.calculus",
    ),
    "shapes": (
        "Shapes: joining, splitting, repeating, padding",
        "ops.shaping ops.views ops.stacking ops.repeat_and_flip ops.padding ops.triangles more.windows "
        "more.grids",
    ),
    "indexing": (
        "Indexing, gathering, scattering, diagonals",
        "ops.indexing ops.selection ops.scattering more.diagonals",
    ),
    "linear-algebra": (
        "Linear algebra",
        "ops.linalg more.matrix_products more.contractions more.decompositions more.inverses "
        "ops.norms ops.quantized more.norms more.distances",
    ),
    "networks": (
        "Networks: attention, losses, normalization, convolution",
        "ops.attention ops.losses ops.normalization ops.recurrent more.losses more.margin_losses "
        "more.normalization more.convolution more.pooling more.resampling",
    ),
}

# page: its title, and the modules whose names it has
MODULES = {
    "api/minigrad": ("minigrad", "minigrad"),
    "api/minigrad.Tensor": ("minigrad.Tensor", ""),
    "api/creation": ("Creating and drawing tensors", "minigrad.ops.creation minigrad.ops.sampling"),
    **{
        f"api/{name}": (title, " ".join(f"minigrad.{module}" for module in modules.split()))
        for name, (title, modules) in FAMILIES.items()
        if name != "networks"  # they are in nn.functional
    },
    "api/minigrad.nn": ("minigrad.nn", "minigrad.nn"),
    "api/minigrad.nn.functional": ("minigrad.nn.functional", "minigrad.nn.functional"),
    "api/minigrad.nn.init": ("minigrad.nn.init", "minigrad.nn.init"),
    "api/minigrad.nn.utils": ("minigrad.nn.utils", "minigrad.nn.utils minigrad.nn.utils.rnn"),
    "api/minigrad.optim": ("minigrad.optim", "minigrad.optim"),
    "api/minigrad.optim.lr_scheduler": ("minigrad.optim.lr_scheduler", "minigrad.optim.lr_scheduler"),
    "api/minigrad.autograd": ("minigrad.autograd", "minigrad.autograd"),
    "api/minigrad.func": ("minigrad.func", "minigrad.func"),
    "api/minigrad.checks": ("minigrad.checks", "minigrad.checks"),
    "api/minigrad.debug": ("minigrad.debug", "minigrad.debug"),
    "api/minigrad.graph": ("minigrad.graph", "minigrad.graph"),
    "api/minigrad.linalg": ("minigrad.linalg", "minigrad.linalg"),
    "api/minigrad.special": ("minigrad.special", "minigrad.special"),
    "api/minigrad.random": ("minigrad.random", "minigrad.random"),
    "api/minigrad.utils.data": ("minigrad.utils.data", "minigrad.utils.data"),
    "api/minigrad.ops": (
        "Ops and kernels of your own",
        "minigrad.ops minigrad.ops.samplers minigrad.kernels",
    ),
    "api/minigrad.devices": (
        "Devices and precision",
        "minigrad.amp minigrad.accelerator minigrad.cuda minigrad.allocator",
    ),
    "api/minitransformer": ("minitransformer", "minitransformer"),
    "api/models": (
        "Models",
        "minitransformer.models minitransformer.models.presets minitransformer.models.protocol",
    ),
    "api/layers": (
        "Layers",
        "minitransformer.layers minitransformer.layers.attention minitransformer.layers.masks "
        "minitransformer.layers.embeddings minitransformer.layers.positions",
    ),
    "api/text": ("Text and data", "minitransformer.text.tokenizer minitransformer.data.batching "
        "minitransformer.data.phrasebook minitransformer.data.splits"),
    "api/generation": ("Generation", "minitransformer.generation minitransformer.generation.generate"),
    "api/training": (
        "Training",
        "minitransformer.training.trainer minitransformer.training.config minitransformer.training.log "
        "minitransformer.training.schedules minitransformer.training.progress minitransformer.training.ranks "
        "minitransformer.runs.run",
    ),
    "api/tasks": (
        "Tasks and scores",
        "minitransformer.tasks minitransformer.tasks.base minitransformer.tasks.metrics "
        "minitransformer.tasks.scores minitransformer.tasks.bootstrap",
    ),
    "api/recipes": (
        "Recipes, commands, errors",
        "minitransformer.recipes minitransformer.cli minitransformer.errors",
    ),
    "api/inspection": (
        "Looking inside a model",
        "minitransformer.inspection.recording minitransformer.inspection.states "
        "minitransformer.inspection.heads minitransformer.inspection.probes minitransformer.inspection.words "
        "minitransformer.inspection.word_files",
    ),
    "api/plots": ("Plots and the live page", "minitransformer.plots minitransformer.explain"),
}  # fmt: skip


@dataclass
class Entry:
    """A documented object: its name, other names of the same object, and where it stands."""

    name: str
    thing: Any
    page: str
    group: str  # the section of the page
    others: list[str] = field(default_factory=list)

    @property
    def info(self) -> OpInfo | None:
        return info_of(self.thing)


@dataclass
class Page:
    """A page of the reference: rows (shown name, entry) by section, and entries that stand here."""

    name: str
    title: str
    rows: dict[str, list[tuple[str, Entry]]] = field(default_factory=dict)


# of several names of a function, the one that the entry has; otherwise it is the shortest
PREFERRED = {
    "clamp", "transpose", "movedim", "positive", "trunc", "dot", "outer", "sign", "trapezoid",
    "float16", "float64", "int16", "int64",
}  # fmt: skip


@functools.cache
def pages() -> dict[str, Page]:
    """All pages of names. An object has one entry, on the first page that has it; later pages link to it."""
    made = {page: Page(page, title) for page, (title, _) in MODULES.items()}
    known: dict[int, Entry] = {}
    for page, (_, modules) in MODULES.items():
        for module in modules.split():
            if module == "minigrad":
                functions(made, known)
            elif page not in function_pages():
                add_module(made[page], module, known)
    made["api/minigrad.Tensor"].rows = methods(known)
    own = {name: entry for entry in known.values() if (name := own_name(entry)) in minitransformer.__all__}
    made["api/minitransformer"].rows[""] = sorted(own.items(), key=lambda row: row[0].lower())
    return made


def own_name(entry: Entry) -> str:
    package, _, name = entry.name.rpartition(".")
    return name if package == "minitransformer" else ""


def function_pages() -> list[str]:
    """The pages of functions `minigrad.NAME`, by family."""
    return ["api/creation", *(f"api/{name}" for name in FAMILIES if f"api/{name}" in MODULES)]


def page_of_module(module: str) -> str:
    """Where a function `minigrad.NAME` of that module stands."""
    return next((p for p in function_pages() if module in MODULES[p][1].split()), "api/minigrad")


def functions(made: dict[str, Page], known: dict[int, Entry]) -> None:
    """What `minigrad` has: functions by family, the rest on the page of the module."""
    things = {name: getattr(minigrad, name) for name in minigrad.__all__}
    names: dict[int, list[str]] = {}
    for name, thing in things.items():
        names.setdefault(id(thing), []).append(name)
    for same in names.values():
        same.sort(key=lambda name: (name not in PREFERRED, len(name), name))
    for same in sorted(names.values(), key=lambda same: same[0].lower()):
        thing = things[same[0]]
        if inspect.ismodule(thing) or (same[0].endswith("_") and same[0].strip("_") in things):
            continue
        others = [f"minigrad.{name}" for name in same[1:]]
        others += [f"minigrad.{name}_" for name in same if f"{name}_" in things and callable(thing)]
        info = info_of(thing)
        module = info.source.__module__ if info else getattr(thing, "__module__", None) or ""
        page = made[page_of_module(module)]
        group = heading(module) if page.name != "api/minigrad" else section(thing, module)
        entry = Entry(f"minigrad.{same[0]}", thing, page.name, group, others)
        known[id(thing)] = entry
        page.rows.setdefault(group, []).append((same[0], entry))
    for page in made.values():
        order = [heading(module) for module in MODULES[page.name][1].split()]
        order = [*order, *SECTIONS.values()]
        page.rows = dict(sorted(page.rows.items(), key=lambda item: order.index(item[0])))


SECTIONS = {  # sections of the page of `minigrad`, by defining module
    "tensor": "Tensors",
    "modes": "Gradients",
    "check report sweep": "Checking gradients",
    "random": "Random numbers",
    "precision grad_scaler": "Precision",
    "devices capture": "Devices",
    "io": "Files",
    "shadow printing methods_in_place torch_aliases": "Utilities",
    "errors": "Errors",
    "": "Dtypes and constants",
}


def section(thing: Any, module: str) -> str:
    last = module.rpartition(".")[2]
    if not module.startswith("minigrad") or not callable(thing):
        return SECTIONS[""]
    titles = [title for modules, title in SECTIONS.items() if last in modules.split()]
    if not titles:
        raise ValueError(f"no section has the names of {module}: add it to SECTIONS of tools/site/names.py")
    return titles[0]


TITLES = {
    "core": "Layers, attention, losses",
    "functional": "Dropout and sampling",
    "linalg": "Matrix multiplication",
    "rounding": "Division, rounding, signs and combinations",
    "elementary": "Elementary functions",
    "specials": "Special functions",
    "grids": "Grids and combinations",
    "module": "Base classes",
}


def heading(module: str) -> str:
    last = module.rpartition(".")[2]
    return TITLES.get(last, last.replace("_", " ").capitalize())


def find(path: str) -> Any:
    """A module, also one that is an attribute of its package."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        parent, _, name = path.rpartition(".")
        return getattr(importlib.import_module(parent), name)


def add_module(page: Page, path: str, known: dict[int, Entry]) -> None:
    """The rows of a module, and the entries of what no earlier page has."""
    if path == "minitransformer":  # each name stands on the page of its subject
        return
    module = find(path)
    for name in public_names(path, module):
        thing = getattr(module, name, module)
        if inspect.ismodule(thing) or isinstance(thing, type(Any)):
            continue
        entry = known.get(id(thing)) if callable(thing) or inspect.isclass(thing) else None
        full = f"{path}.{name}"
        if entry is None:
            short = path.startswith("minitransformer") and name in minitransformer.__all__
            group = group_of(page, path, thing)
            entry = Entry(f"minitransformer.{name}" if short else full, thing, page.name, group)
            known[id(thing)] = entry
        elif full != entry.name and full not in entry.others and path.startswith("minigrad"):
            entry.others.append(full)
        if not any(entry is other for rows in page.rows.values() for _, other in rows):
            page.rows.setdefault(group_of(page, path, thing), []).append((name, entry))
    for rows in page.rows.values():
        rows.sort(key=lambda row: row[0].lower())


def group_of(page: Page, path: str, thing: Any) -> str:
    """The section of a page: by module, or by the files of one that is large."""
    if path in ("minigrad.nn", "minigrad.nn.functional"):
        info = info_of(thing)
        return heading(info.source.__module__ if info else thing.__module__)
    several = len(MODULES[page.name][1].split()) > 1
    return path if several else ""


@functools.cache
def listed() -> dict[str, list[str]]:
    """The names that public_names.txt lists, by module."""
    sections = [part.partition("]\n") for part in LISTED.read_text(encoding="utf-8").split("\n[")[1:]]
    return {module: names.split() for module, _, names in sections}


def public_names(path: str, module: ModuleType) -> list[str]:
    """The names of a module that are public: `__all__`, or those that public_names.txt lists."""
    names = list(getattr(module, "__all__", listed().get(path, [])))
    if path == "minigrad.ops":
        return ["About", "Op", "OpInfo", "composite", "derived", "differentiable"]
    if path.startswith("minitransformer"):
        promised = {*minitransformer.__all__}
        promised.update(*(names for place, names in listed().items() if place.startswith("minitransformer")))
        names += [
            name
            for name, thing in vars(module).items()
            if getattr(thing, "__module__", "") == path and name in promised and name not in names
        ]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def methods(known: dict[int, Entry]) -> dict[str, list[tuple[str, Entry]]]:
    """What a Tensor has that is not a function: attributes, and methods of its own."""
    rows: dict[str, list[tuple[str, Entry]]] = {"Attributes": [], "Methods": []}
    for name in sorted(dir(minigrad.Tensor)):
        thing = inspect.getattr_static(minigrad.Tensor, name)
        function = METHODS.get(name)
        is_function = function is not None and (id(function) in known or is_in_place(name))
        if name.startswith("_") or isinstance(thing, Late) or is_function:
            continue
        kind = "Methods" if callable(thing) else "Attributes"
        entry = Entry(f"minigrad.Tensor.{name}", thing, "api/minigrad.Tensor", kind)
        rows[kind].append((name, entry))
    return rows


def is_in_place(name: str) -> bool:
    return name.endswith("_") and name.strip("_") in METHODS


@functools.cache
def entries() -> list[Entry]:
    found = {
        id(entry): entry for page in pages().values() for rows in page.rows.values() for _, entry in rows
    }
    return list(found.values())


@functools.cache
def by_name() -> dict[str, str]:
    """Names as pages write them -> the name of the entry."""
    short = {
        "minigrad.nn.functional.": "F.",
        "minigrad.nn.": "nn.",
        "minigrad.optim.": "optim.",
        "minigrad.": "mg.",
    }
    found: dict[str, str] = {}
    for entry in entries():
        for name in (entry.name, *entry.others):
            found[name] = entry.name
            for long, prefix in short.items():
                if name.startswith(long):
                    found.setdefault(prefix + name.removeprefix(long), entry.name)
            if name.startswith("minigrad.Tensor."):
                found.setdefault(name.removeprefix("minigrad."), entry.name)
        last = entry.name.rpartition(".")[2]
        if entry.name.startswith("minitransformer.") and (re.search("[A-Z].*[a-z]", last) or "_" in last):
            found.setdefault(last, entry.name)
    return found
