"""ES modules as one script: a page is one file, and its Content-Security-Policy allows one script."""

from __future__ import annotations

import re
from pathlib import Path

COMMENTS = re.compile(r"^ *(?:/\*\*[\s\S]*?\*/|//[^\n]*)\n| +// [^\n\"'`]*$", re.MULTILINE)  # not in a string
IMPORTS = re.compile(r'^import \{[^}]*\} from "(.+?)";\n+', re.MULTILINE)


def join_modules(main: Path) -> str:
    """Return the module `main`, after all that it imports: without imports, exports and comments.

    All modules share one scope, so each name at the top level of a module must be unique.
    """
    found: dict[Path, str] = {}

    def add(path: Path) -> None:
        if path in found:
            return
        found[path] = ""  # a module in a circle of imports comes after the others of the circle
        text = path.read_text(encoding="utf-8")
        for name in IMPORTS.findall(text):
            add((path.parent / name).resolve())
        del found[path]
        found[path] = re.sub(r"^export ", "", COMMENTS.sub("", IMPORTS.sub("", text)), flags=re.MULTILINE)

    add(main.resolve())
    return "".join(found.values())
