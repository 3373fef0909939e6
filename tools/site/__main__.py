"""Builds the site into site/, with warnings as errors and without a network: `python -m tools.site`.

It needs `pip install -e '.[docs]'`. Open site/index.html in a browser; no server is needed. With
`--runs runs` the gallery has live pages of the trained runs there; without, it has their pictures.
"""

from __future__ import annotations

import argparse
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from .pages import BUILD, PAGES, ROOT, gather

HTML = BUILD / "html"  # becomes SITE once it is complete
SITE = ROOT / "site"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__.partition("\n")[0])
    parser.add_argument("--stored", action="store_true", help="lessons as they were last executed")
    parser.add_argument("--runs", type=Path, help="a folder of runs for the live pages of the gallery")
    options = parser.parse_args()
    if find_spec("sphinx") is None:
        parser.error("Sphinx is missing. Install it with: pip install -e '.[docs]'")
    from sphinx.cmd.build import build_main

    from . import api, claims, gallery, lessons, ops

    shutil.rmtree(BUILD, ignore_errors=True)
    gather()
    lessons.write(options.stored)
    api.write()
    ops.write()
    claims.write()
    gallery.write(options.runs)
    # lessons measure times on one thread; warnings are errors (-W); each reference leads somewhere (-n)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    folders = ["-c", ROOT / "tools" / "site", "-d", BUILD / "doctrees", PAGES, HTML]
    if build_main(["-W", "-n", "-q", *map(str, folders)]):
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    HTML.rename(SITE)
    print(SITE / "index.html")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
