"""Builds the site into site/, with warnings as errors and without a network: `python -m tools.site`.

It needs `pip install -e '.[docs]'`. Open site/index.html in a browser; no server is needed. With
`--runs runs` the gallery has live pages of the trained runs there; without, it has their pictures.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from .links import broken
from .pages import BUILD, PAGES, ROOT, gather

HTML = BUILD / "html"  # becomes SITE once it is complete
SITE = ROOT / "site"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--stored",
        action="store_true",
        help="lessons as they were last executed, though the library has changed",
    )
    parser.add_argument(
        "--runs", type=Path, help="a folder of runs, named as recipes, for the live pages of the gallery"
    )
    options = parser.parse_args()
    if find_spec("sphinx") is None:
        parser.error("Sphinx is missing. Install it with: pip install -e '.[docs]'")
    if options.runs is not None and not options.runs.is_dir():
        parser.error(f"{options.runs} is not a folder.")
    from . import api, claims, gallery, lessons, ops  # they need Sphinx

    start = time.perf_counter()
    shutil.rmtree(BUILD, ignore_errors=True)
    gather()
    lessons.build(options.stored)
    api.write()
    ops.write()
    claims.build()
    gallery.build(options.runs)
    executed = time.perf_counter()
    # warnings are errors (-W); each reference must lead somewhere (-n)
    folders = ["-c", ROOT / "tools" / "site", "-d", BUILD / "doctrees", PAGES, HTML]
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", *map(str, folders)]
    failed = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode != 0
    for problem in broken(HTML):
        print(problem, file=sys.stderr)
        failed = True
    print(f"lessons {executed - start:.0f} s, pages {time.perf_counter() - executed:.0f} s")
    if failed:
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    HTML.rename(SITE)
    print(SITE / "index.html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
