"""The files that are published: what the wheel and the sdist hold, and first commands from the wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import minigrad as mg
from tests.tiny import TINY

pytest.importorskip("hatchling", reason="builds the package")
pytest.importorskip("pip", reason="installs it")

ROOT = Path(__file__).parents[3]
NAME = f"minitransformer-{mg.__version__}"
PACKAGES = ("minigrad", "minitransformer")


def run(*words, cwd, **environment):
    """Run Python; its output is text."""
    command = [sys.executable, *map(str, words)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8")


def run_installed(folder, program, *words, cwd):
    """Run a program with the packages of `folder`: -S leaves out the tests' own install of this tree."""
    dependencies = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
    return run("-S", "-c", program, *words, cwd=cwd, PYTHONPATH=os.pathsep.join([str(folder), *dependencies]))


# the command, without numba: its loops would be compiled anew, which takes 20 seconds
COMMAND = """
import sys
sys.modules["numba"] = None
from minitransformer.__main__ import main
sys.exit(main())
"""


def build(target, source, folder):
    done = run("-m", "hatchling", "build", "--target", target, "--directory", folder, cwd=source)
    assert done.returncode == 0, done.stderr


def files_of(folder):
    """The files in a folder that are sources, and not what Python compiled."""
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(folder).as_posix() for path in files}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The sdist, built from this tree and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    build("sdist", ROOT, folder)
    with tarfile.open(folder / f"{NAME}.tar.gz") as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4
        archive.extractall(folder, **safely)
    return folder / NAME


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The wheel, built from the unpacked sdist alone."""
    folder = tmp_path_factory.mktemp("wheel")
    build("wheel", sdist, folder)
    return folder / f"{NAME}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder into which pip installed the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    done = run("-m", "pip", "install", *options, "--target", folder, wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_sdist_contains_all_tracked_files(sdist):
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is not a clone")
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert files_of(sdist) == {name for name in names if (ROOT / name).is_file()} | {"PKG-INFO"}


def test_the_wheel_contains_both_packages_and_the_demos(sdist, wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    sources = {f"{package}/{file}" for package in PACKAGES for file in files_of(sdist / package)}
    demos = {f"minitransformer/demos/{file}" for file in files_of(sdist / "demos")}
    assert names - metadata == sources | demos
    stubs = {"minigrad/core/bound.pyi", "minitransformer/__init__.pyi"}
    assert {f"{package}/py.typed" for package in PACKAGES} | stubs < sources
    assert f"{NAME}.dist-info/licenses/LICENSE" in metadata


def test_the_first_commands_work_from_the_wheel(installed, tmp_path):
    def minitransformer(*words):
        done = run_installed(installed, COMMAND, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = "import minigrad, minitransformer; print(minigrad.__file__); print(minitransformer.__file__)"
    printed = run_installed(installed, where, cwd=tmp_path).stdout
    assert printed.splitlines() == [str(installed / package / "__init__.py") for package in PACKAGES]
    minitransformer("train", "phrasebook", "--data", ROOT / "tests" / "pairs.tsv", *TINY)
    minitransformer("translate", "runs/phrasebook", "I love you")
    minitransformer("graph", "runs/phrasebook", "I love you", "-o", "graph.html")
    minitransformer("explain", "runs/phrasebook", "I love you", "-o", "page.html")
    assert (tmp_path / "graph.html").stat().st_size > 100_000
    assert (tmp_path / "page.html").stat().st_size > 100_000
    assert "phrasebook" in minitransformer("recipes")
    assert "Every word offers a key" in minitransformer("lesson", "1")
    assert (tmp_path / "runs" / "lessons" / "01-shares.png").is_file()


def test_the_wheel_installs_the_command(installed):
    [command] = (installed / "bin").iterdir()
    assert command.stem == "minitransformer"


@pytest.mark.parametrize("is_removed", [False, True], ids=["installed", "uninstalled"])
def test_a_conflicting_minigrad_package_gives_a_two_line_error(installed, tmp_path, is_removed):
    """PyPI's minigrad replaces minigrad/__init__.py, and takes it away when it is uninstalled."""
    folder = shutil.copytree(installed, tmp_path / "installed")
    init = folder / "minigrad" / "__init__.py"
    if is_removed:
        init.unlink()
    else:
        init.write_text("from math import cos as Value\n")
    done = run_installed(folder, COMMAND, "recipes", cwd=tmp_path)
    first, second = done.stderr.splitlines()
    assert done.returncode == 2
    assert first.startswith("error: the installed minigrad is another project's")
    assert "pip uninstall minigrad" in second
