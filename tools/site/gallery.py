"""Live pages, by the commands and scripts of docs/index.md and docs/looking-inside.md that make them.

python -m tools.site --runs runs     # the site; live pages of models only of the runs that are there
python -m tools.site.gallery runs    # their still pictures, into docs/
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from .pages import DOCS, FILES, PAGES, ROOT

SHOWN_IN = ("index.md", "looking-inside.md")
COMMAND = re.compile(r"^minitransformer (explain|graph) (.*-o ([\w-]+)\.html)$", re.MULTILINE)
SCRIPT = re.compile(r'^```python\n((?:(?!^```).*\n)*\w+\.save\("([\w-]+)\.html"\)\n)```$', re.MULTILINE)


def write(runs: Path | None) -> None:
    """Write the live pages to FILES, and make their pictures lead to them."""
    make(runs, FILES / "live")
    for page in (PAGES / name for name in SHOWN_IN):
        text = page.read_text(encoding="utf-8")
        for live in (FILES / "live").iterdir():
            picture = re.compile(rf"^!\[.*\]\(gallery-{live.stem}\.webp\)$", re.MULTILINE)
            size = f"{live.stat().st_size / 1e6:.1f} MB"
            text = picture.sub(
                rf"[\g<0>](live/{live.name})\n[The page alone](live/{live.name}) ({size})", text
            )
        page.write_text(text, encoding="utf-8")


def make(runs: Path | None, folder: Path) -> None:
    """Write all pages that need no run, and those of the runs that are there."""
    folder.mkdir()
    runs = (runs or folder).resolve()
    with chdir(folder):
        for text in ((DOCS / name).read_text(encoding="utf-8") for name in SHOWN_IN):
            for code, name in SCRIPT.findall(text):
                if f"(gallery-{name}.webp)" in text:
                    exec(code, {})
            for verb, arguments, name in COMMAND.findall(text):
                words = shlex.split(arguments.replace("runs/", f"{runs}/", 1))
                is_there = words[0] == "--preset" or Path(words[0]).is_dir()
                if is_there and f"(gallery-{name}.webp)" in text:
                    command = [sys.executable, "-m", "minitransformer", verb, *words]
                    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)


def main() -> None:
    from tests.browser import chromium

    from ..screenshots import screenshot

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        live = Path(folder) / "live"
        make(Path(sys.argv[1]), live)
        for page in live.iterdir():
            picture = DOCS / f"gallery-{page.stem}.webp"
            picture.write_bytes(screenshot(browser, page.as_uri(), 960, 640))
            print(f"{picture}: {picture.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
