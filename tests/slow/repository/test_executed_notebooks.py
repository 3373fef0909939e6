"""The demo notebooks, executed: their graphs and walk-throughs can be walked."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.repository.test_notebooks import NOTEBOOKS, open_file


@pytest.fixture(scope="module")
def executed(tmp_path_factory, place):
    """The demo notebooks, executed, as pages; beside them a run of the phrasebook's recipe."""
    for package in ("nbconvert", "ipykernel"):
        if find_spec(package) is None:
            pytest.skip(f"notebooks are executed with {package} (pip install -e '.[notebook]')")
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(place / "mine", folder / "runs" / "phrasebook")
    (folder / "demos").mkdir()
    copies = [shutil.copy(notebook, folder / "demos") for notebook in NOTEBOOKS]
    limits = [f"--ExecutePreprocessor.{name}=300" for name in ("timeout", "startup_timeout")]
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", *limits, *copies]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "demos"


def test_graphs_in_executed_notebooks_are_interactive(executed, browser):
    page, _ = open_file(browser, executed / "graph.html")
    page.wait_for_load_state()
    assert page.locator("iframe").count() == 3
    for i in range(3):
        frame = page.frame_locator(f"iframe >> nth={i}")
        frame.locator("#walk").click(timeout=30_000)
        frame.locator("#next-step").click()
        assert frame.locator("#panel .progress").inner_text().startswith("Step 1 of")
    text = page.locator("body").inner_text()
    assert "22 parameters" in text  # the model's tree
    assert "float32[6, 2]" in text  # the points
    assert "the gradient agrees with finite differences in 22 elements" in text
    assert "the output and all gradients are finite" in text
    page.context.close()


def test_walkthroughs_in_executed_notebooks_are_interactive(executed, browser):
    page, complaints = open_file(browser, executed / "explain.html")
    page.wait_for_load_state()  # until then the frames move, and a click may miss
    assert page.locator("iframe").count() == 2
    for i, title in enumerate(["phrasebook: I love you", "Ten words, by hand"]):
        assert page.locator(f"iframe >> nth={i}").get_attribute("title") == title
        frame = page.frame_locator(f"iframe >> nth={i}")
        frame.locator("body.ready").wait_for(timeout=30_000)
        frame.locator("#map summary").click()
        frame.locator('.stages a[href="#softmax"]').click()  # a link within the frame
        frame.locator("h2#softmax").wait_for()
        frame.locator('[data-key="numbers"]').click()
        frame.locator("#screen td button").first.click()
        assert frame.locator("#inspector .value").is_visible()
    frame.locator("#sentence").fill("you love I")
    assert frame.locator("#screen .numbers tbody").first.inner_text().split()[::4] == ["you", "love", "I"]
    text = page.locator("body").inner_text()
    assert "Transformer" in text  # the run
    assert "array([[" in text  # the numbers in Python
    assert page.locator("img").count() >= 2  # the run's curves, and the alignment
    assert [each for each in complaints if "ERR_FAILED" not in each] == []  # MathJax cannot be loaded
    page.context.close()
