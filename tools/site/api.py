"""Pages of the API reference: a table of names, then an entry for each, from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.util.inspect import stringify_signature

from minigrad.core.op import info_of
from minigrad.core.registry import registry
from minigrad.nn import functional
from minigrad.ops import METHODS
from tools.reference import OPERATORS, prose

from . import names
from .names import FAMILIES, MODULES, Entry, Page, find
from .pages import PAGES, ROOT

HEADING = """# API reference

Every public name of both packages, with signature, docstring and source. Formulas of all derivatives are in
the [reference of ops](ops.md). Names, arguments and defaults are PyTorch's, Hugging Face's or JAX's where
they have such a name; [coming from PyTorch](pytorch.md) lists what differs.

Examples are run by the tests. They start with

```python
import numpy as np

import minigrad as mg
from minigrad import nn, optim
from minigrad.nn import functional as F
```

"""
PARTS = {
    "minigrad: tensors and functions": ("api/minigrad", "api/linear-algebra"),
    "minigrad: networks, training, tools": ("api/minigrad.nn", "api/minigrad.devices"),
    "minitransformer": ("api/minitransformer", "api/plots"),
}  # the first and the last page of each


def write() -> None:
    """Write all pages of the reference to PAGES."""
    (PAGES / "api").mkdir(exist_ok=True)
    pages = names.pages()
    (PAGES / "api.md").write_text(index(pages), encoding="utf-8")
    for page in pages.values():
        (PAGES / f"{page.name}.md").write_text(text_of(page), encoding="utf-8")


def index(pages: dict[str, Page]) -> str:
    order = list(pages)
    text = HEADING
    for title, (first, last) in PARTS.items():
        inside = order[order.index(first) : order.index(last) + 1]
        rows = [f"| [{pages[p].title}]({p}.md) | {about(pages[p])} |" for p in inside]
        text += "\n".join([f"## {title}", "", "| page | what it has |", "|---|---|", *rows, "", ""])
    return text + "\n".join(["```{toctree}", ":hidden:", "", *order, "```", ""])


def about(page: Page) -> str:
    """What a page has: the first sentence of its module, or its first names."""
    if page.name == "api/minigrad.Tensor":
        return "Attributes, methods and operators of a tensor."
    modules = MODULES[page.name][1].split()
    if len(modules) == 1 and page.title in modules:
        return summary(find(modules[0]))
    found = [f"`{name}`" for rows in page.rows.values() for name, _ in rows]
    return ", ".join([*found[:8], "..."][: len(found)])


def text_of(page: Page) -> str:
    modules = MODULES[page.name][1].split()
    parts = [f"# {page.title}"]
    if page.title in modules:
        parts.append(prose(inspect.getdoc(find(page.title)) or ""))
    if page.name == "api/minigrad.Tensor":
        return "\n\n".join([*parts, *tensor(page)]) + "\n"
    for group, rows in page.rows.items():
        if group:
            parts.append(f"## {group}")
        if group in modules and group != page.title:
            parts.append(prose(inspect.getdoc(find(group)) or ""))
        parts.append(table(rows))
        parts += [described(entry) for _, entry in rows if entry.page == page.name and entry.group == group]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(rows: list[tuple[str, Entry]]) -> str:
    lines = ["| name | summary |", "|---|---|"]
    for name, entry in rows:
        lines.append(
            f"| {{py:obj}}`{name} <{entry.name}>` | {summary(entry.thing) or value_of(entry.thing)} |"
        )
    return "\n".join(lines)


def summary(thing: Any) -> str:
    """The first sentence of a docstring, as Markdown for a cell of a table."""
    if (
        isinstance(thing, str | int | float | tuple | dict)
        or thing is None
        or type(thing).__module__ == "numpy"
    ):
        return ""
    first = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[^.][.])\s+(?=[A-Z`\"])", first)[0]
    return prose(sentence).replace("|", "\\|").replace("\\\\|", "\\|")


# ---------------------------------------------------------------- entries


def described(entry: Entry) -> str:
    """An object's entry: a directive of Sphinx's Python domain."""
    module, _, name = entry.name.rpartition(".")
    thing = entry.thing
    arguments = signature(thing)
    if entry.name.startswith("minigrad.Tensor."):
        module, name, arguments = "minigrad", f"Tensor.{name}", without_self(arguments)
    body = [*docstring(thing), *members(entry), notes(entry)]
    options = f":module: {module}\n"
    return directive(kind_of(thing, name), name + arguments, options, "\n\n".join(filter(None, body)))


def kind_of(thing: Any, name: str) -> str:
    in_class = "." in name
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    if isinstance(thing, property) or inspect.isgetsetdescriptor(thing) or inspect.ismemberdescriptor(thing):
        return "attribute"
    if callable(thing):
        return "method" if in_class else "function"
    return "attribute" if in_class else "data"


def directive(kind: str, head: str, options: str, body: str) -> str:
    fence = "`" * (max([3, *map(len, re.findall("^`+", body, re.MULTILINE))]) + 1)
    return f"{fence}{{py:{kind}}} {head}\n{options}\n{body}\n{fence}"


def docstring(thing: Any) -> Iterator[str]:
    if not callable(thing) and not isinstance(thing, property) and not inspect.ismemberdescriptor(thing):
        yield value_of(thing)
        return
    if inspect.isclass(thing) and thing.__doc__ is None:
        return
    yield prose(re.split(r"(?:^|\n\n)Gradients of y = ", inspect.getdoc(thing) or "")[0])


def value_of(thing: Any) -> str:
    if isinstance(thing, dict):
        return "A dict with the keys " + ", ".join(f"`{key!r}`" for key in thing) + "."
    text = repr(thing)
    return "" if text.startswith("<") else f"`{text}`"


def signature(thing: Any) -> str:
    """`(x, dim=-1)`, without types and defaults that say nothing."""
    if not callable(thing) or (dataclasses.is_dataclass(thing) and fields(thing)):
        return ""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    shown = [
        p.replace(annotation=annotation(p.annotation), default=default(p.default))
        for p in found.parameters.values()
    ]
    result = found.empty if inspect.isclass(thing) else annotation(found.return_annotation)
    return stringify_signature(found.replace(parameters=shown, return_annotation=result))


def annotation(found: Any) -> Any:
    return inspect.Parameter.empty if found in ("Any", "None", None, Any) else found


def default(found: Any) -> Any:
    is_long = found is not inspect.Parameter.empty and re.search("^<| at 0x", repr(found))
    return Omitted() if is_long else found


class Omitted:
    """A default whose text would say nothing."""

    def __repr__(self) -> str:
        return "..."


def members(entry: Entry) -> Iterator[str]:
    """A class's settings, methods and properties."""
    thing = entry.thing
    if not inspect.isclass(thing) or entry.name == "minigrad.Tensor":
        return
    yield settings(thing)
    documented = {id(other.thing) for other in names.entries() if other is not entry}
    for name, found in sorted(of_class(thing, documented).items()):
        inner = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        kind = "property" if isinstance(found, property | functools.cached_property) else "method"
        head = name + (method_signature(found, inner) if kind == "method" else "")
        body = prose(inspect.getdoc(found) or "")
        flags = {classmethod: ":classmethod:\n", staticmethod: ":staticmethod:\n"}.get(type(found), "")
        options = f":no-contents-entry:\n{flags}"  # contents entries would take a third of the build's time
        yield directive(kind, head, options, body)


def of_class(thing: type, documented: set[int]) -> dict[str, Any]:
    """Public methods and properties with a docstring; those of base classes if only this file has them."""
    found: dict[str, Any] = {}
    for place in thing.__mro__:
        if place is not thing and (id(place) in documented or place.__module__ != thing.__module__):
            continue
        for name, value in vars(place).items():
            is_member = inspect.isroutine(value) or isinstance(value, property | functools.cached_property)
            if is_member and not name.startswith("_") and value.__doc__:
                found.setdefault(name, value)
    return found


def method_signature(found: Any, inner: Any) -> str:
    return signature(inner) if isinstance(found, staticmethod) else without_self(signature(inner))


def without_self(arguments: str) -> str:
    return re.sub(r"^\(\w+(: \w+)?(, /)?(, )?", "(", arguments)


def settings(thing: type) -> str:
    """The fields of a dataclass, with the comments beside them."""
    if not dataclasses.is_dataclass(thing) or not fields(thing):
        return ""
    lines = ["| field | default | meaning |", "|---|---|---|"]
    comments = {}
    for place in reversed(thing.__mro__):
        if dataclasses.is_dataclass(place):
            comments |= comments_of(place)
    for item in fields(thing):
        default = "" if item.default is dataclasses.MISSING else f"`{item.default!r}`"
        if item.default_factory is not dataclasses.MISSING:
            default = f"`{item.default_factory()!r}`"
        about = prose(comments.get(item.name, ""))
        kind = item.type if isinstance(item.type, str) else item.type.__name__
        lines.append(
            "| "
            + " | ".join(t.replace("|", "\\|") for t in (f"`{item.name}: {kind}`", default, about))
            + " |"
        )
    return "\n".join(lines)


def fields(thing: Any) -> list[dataclasses.Field]:
    return [item for item in dataclasses.fields(thing) if item.init and not item.name.startswith("_")]


def comments_of(thing: type) -> dict[str, str]:
    """The comment on each field's line."""
    try:
        source = textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        return {}
    found = {}
    name = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if field := re.match(r"    (\w+): ", token.line):
            name = field[1]
        elif re.match(r"    \S", token.line) and not token.line.startswith("    )"):
            name = None
        if token.type == tokenize.COMMENT and name and name not in found:
            found[name] = token.string.lstrip("# ").strip()
    return found


# ---------------------------------------------------------------- links


def notes(entry: Entry) -> str:
    """Other names, the derivative and the source of an object, in a line."""
    parts = []
    others = [f"`{name}`" for name in entry.others]
    info = op_of(entry.thing)
    if entry.info is not None:
        bound = [name for name, function in METHODS.items() if info_of(function) is entry.info]
        others += [
            f"`x.{name}()`"
            for name in bound
            if not name.startswith("__") and name.strip("_") == entry.name.rpartition(".")[2]
        ]
        others += [f"`{OPERATORS[name]}`" for name in bound if name in OPERATORS]
    if others:
        parts.append("Also " + ", ".join(dict.fromkeys(others)) + ".")
    if info is not None and info.source.__module__.startswith("minigrad."):
        parts.append(f"[Definition and derivative](#op-{info.name}).")
    if (function := function_of(entry.name)) is not None:
        parts.append(f"Function: `{function}`.")
    parts.append(source(entry.thing))
    return " ".join(filter(None, parts))


def function_of(name: str) -> str | None:
    """The function with the name of a module of nn: F.layer_norm for nn.LayerNorm."""
    module, _, last = name.rpartition(".")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last.removesuffix("Loss")).lower()
    options = (words, f"{words}_loss", last.lower())
    return next((f"F.{f}" for f in options if module == "minigrad.nn" and hasattr(functional, f)), None)


def op_of(thing: Any) -> Any:
    """The op that a function is, or that a function of the same name leads to."""
    if (info := info_of(thing)) is not None or not inspect.isfunction(thing):
        return info
    leads = thing.__module__.startswith("minigrad.nn.functional")
    return registry.get(thing.__name__) if leads else None


def source(thing: Any) -> str:
    info = info_of(thing)
    inner = inspect.unwrap(info.source if info else thing.fget if isinstance(thing, property) else thing)
    try:
        file = Path(inspect.getsourcefile(inner) or "").resolve()
        line = inspect.getsourcelines(inner)[1]
    except (OSError, TypeError):
        return ""
    if not file.is_relative_to(ROOT):
        return ""
    path = file.relative_to(ROOT).as_posix()
    return f"Source: [{path}](/{path}#line-{line})"


# ---------------------------------------------------------------- Tensor


def tensor(page: Page) -> Iterator[str]:
    """The page of Tensor: what is its own, then operators, functions and changes in place."""
    yield "The class itself, `mg.Tensor`, and `mg.tensor` are on the page of [minigrad](minigrad.md)."
    for group, rows in page.rows.items():
        yield f"## {group}"
        yield table(rows)
        yield from (described(entry) for _, entry in rows)
    operators = {name: METHODS[name] for name in OPERATORS if name in METHODS}
    known = {id(entry.info): entry for entry in names.entries() if entry.info is not None}
    yield "## Operators"
    lines = ["| operator | function |", "|---|---|"]
    for name, function in operators.items():
        entry = known.get(id(info_of(function)))
        shown = f"{{py:obj}}`{entry.name} <{entry.name}>`" if entry else f"`{name}`"
        lines.append(f"| `{OPERATORS[name]}` | {shown} |".replace("x | y", "x \\| y"))
    yield "\n".join(lines)
    yield "## Functions as methods"
    yield "`x.softmax(dim=0)` is `mg.softmax(x, dim=0)`, and likewise:"
    for name in ("creation", *FAMILIES):
        if other := names.pages().get(f"api/{name}"):
            rows = [row for rows in other.rows.values() for row in rows if row[0] in METHODS]
            shown = [f"{{py:obj}}`{row} <{entry.name}>`" for row, entry in rows]
            yield f"- {other.title}: {', '.join(shown)}" if shown else ""
    yield "## In place"
    yield (
        "Methods whose names end in an underscore change the tensor: `x.clamp_(0, 1)` is "
        "`x.copy_(x.clamp(0, 1))`. They are recorded for backward "
        "([examples](../pytorch.md#changes-in-place))."
    )
    changed = sorted(name for name in METHODS if names.is_in_place(name))
    yield ", ".join(f"`{name}`" for name in changed)
