"""The API reference: pages of the public names, whose entries autodoc writes from the docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np

import minigrad
from minigrad.core.op import info_of
from minigrad.late_names import Late
from minigrad.ops import METHODS
from tools.reference import OPERATORS

from .pages import PAGES

# pages by their titles: the modules of the package whose names they have (of functions, that define them)
FAMILIES = {
    "Elementwise functions": "core.arithmetic ops.arithmetic ops.rounding ops.elementary more.elementary "
    "ops.activations more.activations more.specials",
    "Comparisons and logic": "ops.comparisons ops.logic",
    "Reductions, statistics, scans, sorting": "ops.reductions ops.statistics ops.scans ops.sorting "
    "more.counting more.calculus",
    "Shapes: joining, splitting, repeating, padding": "ops.shaping ops.views ops.stacking "
    "ops.repeat_and_flip ops.padding ops.triangles more.windows more.grids",
    "Indexing, gathering, scattering, diagonals": "ops.indexing ops.selection ops.scattering more.diagonals",
    "Linear algebra": "ops.linalg more.matrix_products more.contractions more.decompositions more.inverses "
    "ops.norms ops.quantized more.norms more.distances",
    "Networks: attention, losses, normalization, convolution": "ops.attention ops.losses ops.normalization "
    "ops.recurrent more.losses more.margin_losses more.normalization more.convolution more.pooling "
    "more.resampling",
}
ALONE = (  # pages of one module
    "nn nn.functional nn.init nn.utils optim optim.lr_scheduler autograd func checks debug graph linalg "
    "special random utils.data"
)
TITLES = {
    "minigrad": {
        "minigrad": "",  # the names of the package that no other page has
        "minigrad.Tensor": "",
        "Creating and drawing tensors": "ops.creation ops.sampling",
        **{title: modules for title, modules in FAMILIES.items() if "Networks" not in title},
        **{f"minigrad.{module}": module for module in ALONE.split()},
        "Ops and kernels of your own": "ops ops.samplers kernels core.namespace",
        "Devices and precision": "amp accelerator allocator",
    },
    "minitransformer": {
        "Models": "models models.presets pretrained",
        "Layers": "layers",
        "Text and data": "text.tokenizer data.batching data.phrasebook data.splits data.rows",
        "Generation": "generation",
        "Training": "training.trainer training.config training.log training.ranks runs.run",
        "Tasks and scores": "tasks tasks.encoder tasks.scores tasks.bootstrap",
        "Recipes, commands, errors": "recipes cli errors",
        "Looking inside a model": "inspection.recording inspection.heads inspection.states inspection.probes "
        "inspection.words inspection.word_files",
        "Plots and the live page": "plots explain",
    },
}
CLAIMED = {
    f"{package}.{module}"
    for package in TITLES
    for names in TITLES[package].values()
    for module in names.split()
}
INTERNAL = ("minigrad.core.", "minigrad.ops.", "minigrad.more.")  # their functions are minigrad's
NAMES = {  # of modules without __all__
    "minigrad.nn.init": "calculate_gain constant_ dirac_ eye_ kaiming_normal_ kaiming_uniform_ normal_ ones_ "
    "orthogonal_ sparse_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_ zeros_",
    "minigrad.debug": "detect_anomaly shadow why_nan",
    "minigrad.graph": "Graph keep named_scope trace why_nan",
    "minigrad.random": "Generator default_generator fork_rng get_rng_state initial_seed manual_seed seed "
    "set_rng_state",
    "minigrad.core.namespace": "namespace",
    "minigrad.ops": "About Op OpInfo composite derived differentiable",
    "minigrad.ops.samplers": "binary distinct each integers mask positive probability real symmetric unary",
    "minigrad.allocator": "keep_freed_memory",
    "minitransformer.models.presets": "preset",
    "minitransformer.data.batching": "Batches IGNORE ShuffledBatches TokenBatches collate pad_rows",
    "minitransformer.data.phrasebook": "Phrasebook phrasebook",
    "minitransformer.data.splits": "Splits",
    "minitransformer.data.rows": "BadRow read_rows texts_of",
    "minitransformer.runs.run": "Run",
    "minitransformer.training.log": "Log read_log",
    "minitransformer.training.ranks": "MPIRanks Ranks join",
    "minitransformer.tasks.scores": "Score rmse",
    "minitransformer.tasks.encoder": "LabelledData",
    "minitransformer.tasks.bootstrap": "intervals",
    "minitransformer.recipes": "Recipe load_recipe names",
    "minitransformer.cli": "main",
    "minitransformer.errors": "UserError",
}
HEADINGS = {  # of the names that a file defines, where the file's name says too little
    "core": "Layers, attention, losses", "functional": "Dropout and sampling",
    "linalg": "Matrix multiplication", "rounding": "Division, rounding, signs and combinations",
    "elementary": "Elementary functions", "specials": "Special functions", "grids": "Grids and combinations",
    "module": "Base classes", "tensor": "Tensors", "modes": "Gradients", "io": "Files",
    "numpy": "Dtypes and constants",
    **dict.fromkeys(("check", "report", "sweep"), "Checking gradients"),
    **dict.fromkeys(("torch_aliases", "methods_in_place", "printing", "shadow", "capture"), "Utilities"),
}  # fmt: skip
OPENING = """API reference
=============

The public names of both packages, with signature, docstring and source. Formulas of all derivatives are in
the :doc:`reference of ops <ops>`. Names, arguments and defaults are PyTorch's, Hugging Face's or JAX's where
they have such a name; :doc:`coming from PyTorch <pytorch>` lists what differs.

Examples are run by the tests. They start with

.. code-block:: python

   import numpy as np

   import minigrad as mg
   from minigrad import nn, optim
   from minigrad.nn import functional as F

"""
ON_TENSORS = """
Functions as methods
--------------------

``x.softmax(dim=0)`` is ``mg.softmax(x, dim=0)``, and likewise: {functions}.

In place
--------

Methods whose names end in an underscore change the tensor: ``x.clamp_(0, 1)`` is
``x.copy_(x.clamp(0, 1))``. They are recorded for backward. There are {in_place}.
"""


class Reference:
    """What all pages show. An object has one entry, on the first page that has it; other pages link to it."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, dict[str, str]]] = {}  # title: section: shown name: full name
        self.things: dict[str, Any] = {"minigrad.Tensor": minigrad.Tensor}  # full name: object
        self.entries: dict[Any, str] = {id(minigrad.Tensor): "minigrad.Tensor"}  # object: full name
        self.page_of: dict[str, str] = {"minigrad.Tensor": "minigrad.Tensor"}  # full name: title
        self.aliases: dict[str, str] = {}  # other full name: full name
        for package, titles in TITLES.items():
            for title, modules in titles.items():
                self.pages[title] = {}
                for module in modules.split() or [""] * (title == package):
                    self.add(title, package, f"{package}.{module}".rstrip("."))

    def add(self, title: str, package: str, module: str) -> None:
        found = public(package, module)
        is_alone = title in (package, module) or " " not in TITLES[package][title]
        for name, thing in found.items():
            place = package if getattr(resolve_name(package), name, None) is thing else module
            shown = f"{place}.{name}"
            key = id(thing) if callable(thing) or isinstance(thing, np.dtype) else shown
            if key not in self.entries:
                own = str(getattr(thing, "__name__", getattr(thing, "name", name)))  # subtract, not sub
                full = f"{place}.{own}" if getattr(resolve_name(place), own, None) is thing else shown
                self.entries[key], self.things[full], self.page_of[full] = full, thing, title
            for other in (shown, f"{module}.{name}"):
                if other != self.entries[key] and not other.startswith(INTERNAL):
                    self.aliases[other] = self.entries[key]
            defined_in = thing.__module__ if callable(thing) else "numpy"
            section = heading(module if not is_alone else defined_in if len(found) > 20 else "")
            self.pages[title].setdefault(section, {})[name] = self.entries[key]


def public(package: str, module: str) -> dict[str, Any]:
    """The public names of a module, and those of its package that it defines; no `abs_` beside `abs`."""
    names = resolve_name(package).__all__
    whole = {
        name: getattr(resolve_name(package), name)
        for name in names
        if name.rstrip("_") not in names or name[-1] != "_"
    }
    if module == package:
        found = {
            name: thing for name, thing in whole.items() if getattr(thing, "__module__", "") not in CLAIMED
        }
    else:
        names = [] if module.startswith(INTERNAL) else getattr(resolve_name(module), "__all__", [])
        names = NAMES[module].split() if module in NAMES else names
        found = {name: getattr(resolve_name(module), name) for name in names}
        found |= {name: thing for name, thing in whole.items() if getattr(thing, "__module__", "") == module}
    is_ours = lambda thing: not inspect.ismodule(thing) and getattr(thing, "__module__", "") != "numpy"
    return {name: found[name] for name in found if is_ours(found[name])}


def heading(module: str) -> str:
    last = module.rpartition(".")[2]
    return HEADINGS.get(last, last.replace("_", " ").capitalize())


def name_of(title: str) -> str:
    """The name of a page."""
    return "api/" + (title if "minigrad" in title else re.split("[:,]", title)[0].lower().replace(" ", "-"))


reference = cache(Reference)


# ---------------------------------------------------------------- pages


def write() -> None:
    """Write all pages to PAGES, in reStructuredText, since autodoc writes that."""
    (PAGES / "api").mkdir()
    text = OPENING
    for package, titles in TITLES.items():
        rows = [(f":doc:`{title} <{name_of(title)}>`", about(title)) for title in titles]
        text += "\n".join([*underlined(package, "-"), *table(rows), ""])
    names = [name_of(title) for title in reference().pages]
    text += "\n".join([".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""])
    (PAGES / "api.rst").write_text(text, encoding="utf-8")
    for title in reference().pages:
        (PAGES / f"{name_of(title)}.rst").write_text("\n".join(lines(title)), encoding="utf-8")


def about(title: str) -> str:
    """The first sentence of a module, or the first names of a page."""
    if title.startswith("minigrad."):
        return summary(resolve_name(title))
    names = [f"``{name}``" for rows in reference().pages[title].values() for name in rows]
    return ", ".join([*names[:8], "..."][: len(names)])


def lines(title: str) -> Iterator[str]:
    yield from underlined(title, "=")
    if title == "minigrad.Tensor":
        yield from tensor()
    elif title.startswith("minigrad."):
        yield from (f".. automodule:: {title}", "")
    things = reference().things
    for section, unsorted in sorted(reference().pages[title].items()):
        rows = {name: unsorted[name] for name in sorted(unsorted, key=str.lower)}
        if section:
            yield from underlined(section, "-")
        yield from table(
            [(f":py:obj:`{name} <{full}>`", summary(things[full])) for name, full in rows.items()]
        )
        for full in dict.fromkeys(rows.values()):
            if reference().page_of[full] == title:
                fields = "(**fields)" * dataclasses.is_dataclass(things[full])
                option = {"class": ["   :members:"], "data": ["   :no-value:"]}.get(kind(things[full]), [])
                yield from (f".. auto{kind(things[full])}:: {full}{fields}", *option, "")


def tensor() -> Iterator[str]:
    """What a Tensor has that is not a function of minigrad, and the names of what is."""
    functions = {name: full for name in METHODS if (full := reference().entries.get(id(METHODS[name])))}
    in_place = [name for name in METHODS if name[-1] == "_" and name.rstrip("_") in METHODS]
    late = {name for name, thing in vars(minigrad.Tensor).items() if isinstance(thing, Late)}
    own = [
        name for name in dir(minigrad.Tensor) if name[0] != "_" and name not in {*functions, *in_place, *late}
    ]
    yield from (".. autoclass:: minigrad.Tensor", f"   :members: {', '.join(own)}", "   :undoc-members:", "")
    yield ON_TENSORS.format(
        functions=", ".join(
            f":py:obj:`{name} <{functions[name]}>`" for name in sorted(functions) if name[0] != "_"
        ),
        in_place=", ".join(f"``{name}``" for name in sorted(in_place)),
    )


def underlined(text: str, sign: str) -> list[str]:
    return [text, sign * len(text), ""]


def table(rows: list[tuple[str, str]]) -> list[str]:
    cells = [line for name, about in rows for line in (f"   * - {name}", f"     - {about}")]
    return [".. list-table::", "   :widths: 30 70", "", *cells, ""]


def kind(thing: Any) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if callable(thing) else "data"


def summary(thing: Any) -> str:
    """The first sentence of a docstring; the value of what has none."""
    if not callable(thing) and not inspect.ismodule(thing):
        return f"``{thing!r}``" if len(repr(thing)) < 80 and repr(thing)[0] != "<" else ""
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return as_rst(re.split(r"(?<=[^.][.])\s+(?=[A-Z`\"])", first)[0])


# ---------------------------------------------------------------- docstrings, by autodoc's hooks


def as_rst(text: str) -> str:
    """A docstring in reStructuredText: code in ` ` or indented, no other markup."""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            parts.append(f".. code-block:: python\n\n{paragraph}")
        elif paragraph.startswith(">>> "):
            parts.append(paragraph)
        else:
            plain = paragraph.split("`")
            plain[::2] = [re.sub(r"([\\*_|])", r"\\\1", part) for part in plain[::2]]
            plain[1::2] = [rf"\ ``{part}``\ " for part in plain[1::2]]
            parts.append("".join(plain))
    return "\n\n".join(parts)


def docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Complete a docstring with the fields of a class, other names, and where the derivative is."""
    text = as_rst("\n".join(lines).partition("Gradients of y = ")[0].rstrip())
    text = summary(thing) if what == "data" else text
    if dataclasses.is_dataclass(thing):
        text += "\n" + "".join(f"\n- ``{field}``{about and f': {about}'}" for field, about in fields(thing))
    if what == "function":
        info = info_of(thing)
        bound = [n for n, f in METHODS.items() if f is thing or (info and info_of(f) is info)]
        also = [other for other, full in reference().aliases.items() if full == name]
        also += [f"x.{n}()" for n in bound if not n.startswith("_")]
        also += [OPERATORS[n] for n in bound if n in OPERATORS]
        text += f"\n\nAlso {', '.join(f'``{n}``' for n in also)}." if also else ""
        text += f"\n\n:ref:`Definition and derivative <op-{info.name}>`" if info else ""
    lines[:] = text.splitlines()


def fields(thing: type) -> Iterator[tuple[str, str]]:
    """The fields of a dataclass, and the comments beside them."""
    for place in reversed(thing.__mro__):
        if dataclasses.is_dataclass(place):
            source = inspect.getsource(place)
            own = {field.name for field in dataclasses.fields(place)}
            for line, about in re.findall(r"^    ([a-z]\w*: [^#\n]+?)(?:  # (.*))?$", source, re.MULTILINE):
                if line.partition(":")[0] in own:
                    yield line, as_rst(about)
