"""Executes the notebooks of demos, and stores them with their outputs: `python -m tools.notebooks`.

It needs runs/phrasebook, and `pip install -e '.[notebook]'`. A page stays where the notebook is smaller than
LIMIT with it; elsewhere its picture is stored, and the page is there once the notebook is executed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

LIMIT = 300_000  # bytes
DEMOS = Path(__file__).parents[1] / "demos"


def main() -> None:
    for path in sorted(DEMOS.glob("*.ipynb")):
        command = ["-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", str(path)]
        done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
        notebook = shorten(json.loads(done.stdout))
        path.write_text(to_text(notebook), encoding="utf-8")
        print(path, path.stat().st_size)


def shorten(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without the times of its cells, and without the pages that make it too large."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    outputs = [
        output["data"] for cell in notebook["cells"] for output in cell.get("outputs", ()) if "data" in output
    ]
    pages = [data for data in outputs if "<iframe" in "".join(data.get("text/html", ""))]
    for data in sorted(pages, key=lambda data: -len("".join(data["text/html"]))):
        if len(to_text(notebook).encode()) > LIMIT:
            data["text/html"] = re.sub(r"<iframe[\s\S]*</iframe>", "", "".join(data["text/html"]))
    return notebook


def to_text(notebook: dict[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
