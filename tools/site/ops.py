"""Pages of all ops by family, from tools.reference: definition, derivative, cost."""

from __future__ import annotations

import re

from tools.reference import HEADER, anchor, entry, families, opening

from .api import FAMILIES, heading, name_of
from .pages import PAGES, contents

OP = re.compile(r"^\(op-(.*)\)=")


def write() -> None:
    """Write `ops.md` and a page for each group of families to PAGES."""
    (PAGES / "ops").mkdir()
    found = families()
    index = HEADER.partition("-->\n\n")[2].replace("$`", "$").replace("`$", "$")  # as Sphinx reads it
    by_anchor = {anchor(info.name): f"(#op-{info.name})" for infos in found.values() for info in infos}
    link = re.compile(rf"\(#({'|'.join(map(re.escape, by_anchor))})\)")
    for title, modules in FAMILIES.items():
        name = name_of(title).replace("api", "ops")
        index += f"\n## [{title}]({name}.md)\n\n"
        sections: dict[str, list[str]] = {}  # two modules may have the same heading
        for module in modules.split():
            if infos := found.pop(f"minigrad.{module}", None):
                section = sections.setdefault(f"## {heading(module)}", [])
                section.append(opening(f"minigrad.{module}"))
                section += [f"(op-{info.name})=\n{entry(info)}" for info in infos]
        page = f"# Derivatives: {title}\n"
        for line, texts in sections.items():
            page += "\n\n".join(["", line, *texts])
            links = (f"[{name}](#op-{name})" for text in texts for name in OP.findall(text))
            index += f"- {line[3:]}: {' · '.join(links)}\n"
        page = link.sub(lambda found: by_anchor[found[1]], page).replace("](../minigrad", "](/minigrad")
        (PAGES / f"{name}.md").write_text(page, encoding="utf-8")
    if found:
        raise ValueError(
            f"no page has the ops of {', '.join(found)}: add them to FAMILIES in tools/site/api.py"
        )
    index += contents("", [name_of(title).replace("api", "ops") for title in FAMILIES])
    (PAGES / "ops.md").write_text(index, encoding="utf-8")
