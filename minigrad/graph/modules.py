"""A function that joins ES modules to one script, since a page is one file whose policy allows one script."""

from __future__ import annotations

import re
from pathlib import Path

COMMENTS = re.compile(r"^ *(?:/\*\*[\s\S]*?\*/|//[^\n]*)\n| +// [^\n\"'`]*$", re.MULTILINE)  # not in a string
IMPORTS = re.compile(r'^import \{[^}]*\} from "(.+?)";\n+', re.MULTILINE)


def join_modules(main: Path) -> str:
    """Join the modules that `main` imports, and `main`, to one script without imports, exports and comments.

    All modules share one scope, so each name at the top level of a module must be unique.
    """
    found: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in found:
            return
        found[path] = ""  # in an import cycle, the module comes after the others of the cycle
        text = path.read_text(encoding="utf-8")
        for name in IMPORTS.findall(text):
            add((path.parent / name).resolve())
        del found[path]
        found[path] = re.sub(r"^export ", "", COMMENTS.sub("", IMPORTS.sub("", text)), flags=re.MULTILINE)

    add(main.resolve())
    return "".join(found.values())
