"""Shapes in signatures are checked while the tests run; real data is found beside the project, or skipped."""

import gc
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # `-n auto`: processes of one thread each
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import jaxtyping
import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

import minigrad as mg
from minigrad import linalg  # noqa: F401 - which loads `more`: tests of all ops and classes find its too
from minigrad.core.registry import ops, registry
from tests.gpus import gpu_of_kind, gpus

# not the phrasebook, which has no shapes and a million calls
CHECKED = (
    "data.batching", "generation", "inspection.heads", "inspection.probes", "inspection.relations",
    "inspection.states", "inspection.word_files", "inspection.words", "layers.attention", "layers.config",
    "layers.embeddings", "layers.encoder_decoder", "layers.head_sizes", "layers.masks", "layers.positions",
    "models", "projection", "text.tokenizer",
)  # fmt: skip
install_import_hook([f"minitransformer.{part}" for part in CHECKED], "beartype.beartype")

ROOT = Path(__file__).parents[1]

# no test fails because the machine is busy
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_addoption(parser):
    parser.addoption("--seeds", default="0", help="seeds of the lessons (tests/slow/lessons): 1,2,3")
    parser.addoption(
        "--kernels",
        choices=["numpy", "jit"],
        default="numpy",
        help="NumPy's, as of a default install, or numba's",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """`-n auto`: a process for each core; each collects all tests, and starts a browser."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", 0)) or os.cpu_count() or 1


def pytest_configure(config):
    mg.kernels.use(config.getoption("--kernels"))


def pytest_collection_finish(session):
    """What collection has made stays for good: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items, config):
    """Mark as slow what runs in a browser, but for journeys, and, unless asked for, what numba compiles."""
    with_numba = config.getoption("--kernels") == "jit"
    for item in items:
        numba = item.get_closest_marker("numba")
        if numba and not find_spec("numba"):
            item.add_marker(pytest.mark.skip(reason="numba is not installed (extra `fast`)"))
        in_browser = "browser" in item.fixturenames and not item.get_closest_marker("journey")
        if "slow" not in item.path.parts and (in_browser or (numba and not with_numba)):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _fresh_randomness():
    mg.manual_seed(0)


@pytest.fixture(params=gpus())
def gpu(request):
    """Devices know a GPU: a stand-in for one, and in tests marked `gpu` a real one."""
    with gpu_of_kind(request.param) as kind:
        yield kind


@pytest.fixture
def shared():
    """The folder with the documents' examples and real data (MINITRANSFORMER_DATA names its data folder)."""
    named = os.environ.get("MINITRANSFORMER_DATA")
    place = Path(named).parent if named else ROOT.parent / "shared"
    if not place.is_dir():
        pytest.skip(f"no shared data at {place}")
    return place


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with data, a translation run `mine` and a language run `play`."""
    from minitransformer.cli import main
    from tests.tiny import PAIRS, TEXT, TINY, TINY_GPT

    folder = tmp_path_factory.mktemp("place")
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["train", "phrasebook", "--data", "pairs.tsv", "--run-dir", "mine", *TINY]) == 0
        play = ["train", "shakespeare-char-cpu", "--data", "text.txt", "--run-dir", "play", *TINY_GPT]
        assert main(play) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture(scope="module")
def browser():
    """A running Chromium."""
    from tests.browser import chromium

    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def pages(browser):
    from tests.browser import Pages

    return Pages(browser)


@pytest.fixture
def open_page(pages, tmp_path):
    """Opens a page, by its text or of what has `to_html`; at the end it must have been silent."""
    from tests.browser import Watched

    opened = []

    def open_(content, fragment="", **options):
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(content if isinstance(content, str) else content.to_html(), encoding="utf-8")
        opened.append(Watched(pages, file, fragment, **options))
        return opened[-1]

    yield open_
    for page in opened:
        page.close()


@pytest.fixture
def unchecked(monkeypatch):
    """Arguments reach the function whatever their types, as they do where tests do not check them."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    """A copy of the place, to work in."""
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def cli(here, capsys):
    """Runs a command; gives exit code, standard output and standard error."""
    from minitransformer.cli import main

    def run(*argv):
        capsys.readouterr()
        code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def own_ops():
    """Ops that a test defines are forgotten after it."""
    before = dict(registry), dict(ops)
    yield
    for table, content in zip((registry, ops), before, strict=True):
        table.clear()
        table.update(content)
