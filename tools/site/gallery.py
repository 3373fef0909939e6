"""The live pages of the gallery: the commands in docs/looking-inside.md, run on the runs that are there.

python -m tools.site --runs runs     # the site, with those pages
python -m tools.site.gallery runs    # their still pictures, into docs/
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from .pages import DOCS, FILES, PAGES, ROOT

GALLERY = DOCS / "looking-inside.md"
COMMAND = re.compile(r"^minitransformer ((?:explain|graph) runs/([\w-]+) .*-o (\w+)\.html)$", re.MULTILINE)


def build(runs: Path | None) -> None:
    """Write the pages of the gallery to FILES, and make their pictures lead to them."""
    made = pages(runs, FILES / "live") if runs else []
    copied = PAGES / GALLERY.name
    text = copied.read_text(encoding="utf-8")
    for page in made:
        size = f"{page.stat().st_size / 1e6:.1f} MB"
        picture = re.compile(rf"^!\[.*\]\(gallery-{page.stem}\.webp\)$", re.MULTILINE)
        text = picture.sub(
            rf"[\g<0>](live/{page.name})\n[The page alone](live/{page.name}) ({size})", text, count=1
        )
    copied.write_text(text, encoding="utf-8")


def pages(runs: Path, folder: Path) -> list[Path]:
    """The pages of the runs that are there; for another, the command that trains it is printed."""
    made = []
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for arguments, run, name in COMMAND.findall(GALLERY.read_text(encoding="utf-8")):
        if not (runs / run).is_dir():
            print(f"no page {name}: minitransformer train {run} --run-dir {shlex.quote(str(runs / run))}")
            continue
        page = folder / f"{name}.html"
        verb, _, *text = shlex.split(arguments)[:-2]
        command = [sys.executable, "-m", "minitransformer", verb, str(runs / run), *text, "-o", str(page)]
        if subprocess.run(command, env=environment).returncode:
            raise SystemExit(1)  # it has said why
        made.append(page)
    return made


def main() -> None:
    from tests.browser import chromium

    from ..screenshots import screenshot

    parser = argparse.ArgumentParser(prog="python -m tools.site.gallery", description="The still pictures.")
    parser.add_argument("runs", type=Path, help="a folder of runs, named as recipes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for page in pages(options.runs, Path(folder)):
            picture = DOCS / f"gallery-{page.stem}.webp"
            picture.write_bytes(screenshot(browser, page.as_uri(), 960, 640))
            print(f"{picture}: {picture.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
