"""Pages of all ops by family: definition, derivative, cost, and the functions that lead to each."""

from __future__ import annotations

import re
from functools import cache

from minigrad.core.op import OpInfo
from tools.reference import HEADER, anchor, entry, families, opening

from . import names
from .api import op_of
from .pages import PAGES

MARK = re.compile(r"\]\(#([^)]+)\)")  # a link of tools.reference to an op


def write() -> None:
    """Write `ops.md` and a page for each group of families to PAGES."""
    (PAGES / "ops").mkdir(exist_ok=True)
    groups = grouped()
    (PAGES / "ops.md").write_text(index(groups), encoding="utf-8")
    for name, sections in groups.items():
        parts = [f"# Derivatives: {names.FAMILIES[name][0]}"]
        for heading, modules in sections.items():
            parts += [f"## {heading}", *map(opening, modules)]
            parts += [described(info) for infos in modules.values() for info in infos]
        (PAGES / "ops" / f"{name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def grouped() -> dict[str, dict[str, dict[str, list[OpInfo]]]]:
    """The ops of each page, by heading and module; two modules may have the same heading."""
    found = families()
    groups: dict[str, dict[str, dict[str, list[OpInfo]]]] = {name: {} for name in names.FAMILIES}
    for name, (_, modules) in names.FAMILIES.items():
        for module in (f"minigrad.{last}" for last in modules.split()):
            if module in found:
                groups[name].setdefault(names.heading(module), {})[module] = found.pop(module)
    if found:
        raise ValueError(
            f"no page has the ops of {', '.join(found)}: add them to FAMILIES of tools/site/names.py"
        )
    return groups


def index(groups: dict[str, dict[str, dict[str, list[OpInfo]]]]) -> str:
    text = HEADER.partition("-->\n\n")[2].replace("$`", "$").replace("`$", "$")  # as Sphinx reads it
    for name, sections in groups.items():
        text += f"\n## [{names.FAMILIES[name][0]}](ops/{name}.md)\n\n"
        for heading, modules in sections.items():
            infos = [info for found in modules.values() for info in found]
            text += f"- {heading}: {' · '.join(f'[{i.name}](#op-{i.name})' for i in infos)}\n"
    return text + "\n".join(
        ["", "```{toctree}", ":hidden:", "", *(f"ops/{name}" for name in groups), "```", ""]
    )


def described(info: OpInfo) -> str:
    """The op's entry, which search finds by its name in words."""
    words = info.name.replace("_", " ").strip()
    text = MARK.sub(lambda link: f"](#op-{by_anchor().get(link[1], link[1])})", entry(info))
    text = text.replace("](../minigrad", "](/minigrad")
    # main entries (!) of the index are the first results of a search
    documented = leading().get(info.name, [])
    usage = f"\n\nReference: {', '.join(f'{{py:obj}}`{name}`' for name in documented)}." if documented else ""
    return f"```{{index}} !derivative of {words}, !gradient of {words}\n```\n(op-{info.name})=\n{text}{usage}"


@cache
def leading() -> dict[str, list[str]]:
    """For each op the entries of the functions that lead to it."""
    found: dict[str, list[str]] = {}
    for other in names.entries():
        if (info := op_of(other.thing)) is not None:
            found.setdefault(info.name, []).append(other.name)
    return found


@cache
def by_anchor() -> dict[str, str]:
    return {anchor(info.name): info.name for infos in families().values() for info in infos}
