"""Builds the site into site/, with warnings as errors and without a network: `python -m tools.site`.

It needs `pip install -e '.[docs]'`. Open site/index.html in a browser; no server is needed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time

from .pages import ROOT, gather

PAGES = ROOT / "build" / "site"  # what Sphinx reads: git ignores build/
DOCTREES = ROOT / "build" / "doctrees"
SITE = ROOT / "site"


def main() -> int:
    argparse.ArgumentParser(prog="python -m tools.site", description=__doc__.partition("\n")[0]).parse_args()
    start = time.perf_counter()
    shutil.rmtree(SITE, ignore_errors=True)
    gather(PAGES)
    conf = str(ROOT / "tools" / "site")
    # -W --keep-going: warnings are errors, all of them are shown; -n: each reference must lead somewhere
    options = [
        "-W",
        "--keep-going",
        "-n",
        "-q",
        "-E",
        "-c",
        conf,
        "-d",
        str(ROOT / "build" / "site-doctrees"),
    ]
    failed = subprocess.run([sys.executable, "-m", "sphinx", *options, str(PAGES), str(SITE)]).returncode
    print(f"{SITE / 'index.html'}: {'FAILED' if failed else 'built'} in {time.perf_counter() - start:.0f} s")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
