"""Pictures of the walk-through for the docs: `python -m tools.screenshots RUN -o docs`.

They are screenshots of the page in headless Chromium (the extra `test` has what it needs).
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path

from minitransformer.explain import explain
from tests.browser import chromium

SENTENCE = "The cat sat on the mat"
CROSS = "decoder.layers.1.cross_attention"
PICTURES = {
    "page-overview": "#walkthrough",
    "page-scores": f"#scores:{CROSS}?head=2",
    "page-backward": "#backward?gradients=on",
    "page-what-if": f"#walkthrough?heads={CROSS}-1-2-3-4",
}
"""The name of each picture, and the address of what it shows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run folder of a translator")
    parser.add_argument("text", nargs="?", default=SENTENCE, help=f"what it reads, by default {SENTENCE!r}")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs"), help="the folder of the pictures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "page.html"
        explain(options.run, options.text).save(page)
        for name, address in PICTURES.items():
            path = options.output / f"{name}.webp"
            path.write_bytes(screenshot(browser, page.as_uri() + address))
            print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def screenshot(browser, address: str, width: int = 1280, height: int = 720) -> bytes:
    """What the browser shows at an address, as WebP."""
    from PIL import Image

    size = {"width": width, "height": height}
    tab = browser.new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
    tab.goto(address)
    tab.wait_for_load_state("networkidle")
    picture = Image.open(io.BytesIO(tab.screenshot()))
    tab.close()
    out = io.BytesIO()
    picture.save(out, "webp", quality=80, method=6)
    return out.getvalue()


if __name__ == "__main__":
    main()
