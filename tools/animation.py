"""Ten seconds of the walk-through's Play as an animated WebP: `python -m tools.animation RUN -o play.webp`.

Beside it, play-still.webp has the moment when the text is complete and the gradient begins. The moments are
screenshots of the page in headless Chromium (the extra `test` has what it needs).
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path

from minitransformer.explain import explain
from tests.browser import chromium

SECONDS = 10
STILL = 5.5
TO = """
at => {
  const slider = document.getElementById("timeline");
  slider.value = at;
  slider.dispatchEvent(new Event("input"));
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="a run folder")
    parser.add_argument("text", nargs="?", help="what the model reads; by default an example of its data")
    parser.add_argument("-o", "--output", default="play.webp", help="the animation (.webp)")
    parser.add_argument("--rate", type=int, default=10, help="frames in a second")
    parser.add_argument("--width", type=int, default=960, help="of the animation, in pixels")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        explain(options.run, options.text).save(page)
        frames = moments(page, SECONDS * options.rate, options.width)
    frames[0].save(
        options.output, save_all=True, append_images=frames[1:], duration=1000 // options.rate, loop=0,
        quality=50, method=4,
    )  # fmt: skip
    output = Path(options.output)
    frames[int(STILL * options.rate)].save(output.with_stem(f"{output.stem}-still"), quality=60, method=6)
    print(f"{options.output}: {Path(options.output).stat().st_size / 1e6:.1f} MB")


def moments(page: Path, count: int, width: int) -> list:
    """Pictures of the page, from the text to the gradients."""
    from PIL import Image

    with chromium() as browser:
        size = {"width": 1280, "height": 720}
        tab = browser.new_page(viewport=size, color_scheme="light", reduced_motion="reduce")
        tab.goto(page.as_uri())
        shots = []
        for i in range(count):
            tab.evaluate(TO, round(1000 * i / (count - 1)))
            shots.append(tab.screenshot())
    pictures = [Image.open(io.BytesIO(shot)).convert("RGB") for shot in shots]
    return [picture.resize((width, width * 720 // 1280), Image.Resampling.LANCZOS) for picture in pictures]


if __name__ == "__main__":
    main()
