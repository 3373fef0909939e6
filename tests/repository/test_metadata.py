"""What package indexes and GitHub show: version, licence, authors, oldest Python, forms for issues."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import minigrad as mg
from minitransformer.cli import main

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
FORMS = {path.stem: path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")}


def test_the_version_is_the_same_everywhere(capsys):
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == "minigrad/__init__.py"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    main(["--version"])
    assert capsys.readouterr().out == f"minitransformer {mg.__version__}\n"
    assert str(CITATION["version"]) == mg.__version__
    assert re.search(r"^## \[(.+?)\] - ", changelog, re.MULTILINE)[1] == mg.__version__


def test_licence_and_authors_match_the_licence_file():
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert licence.startswith(f"{PROJECT['license']} License\n")
    assert CITATION["license"] == PROJECT["license"]
    names = [author["name"] for author in PROJECT["authors"]]
    assert names == [author["name"] for author in CITATION["authors"]]
    assert re.search(r"^Copyright \(c\) \d+ (.+)$", licence, re.MULTILINE)[1] == ", ".join(names)


def test_the_minimum_python_version_is_consistent():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    listed = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
    assert listed[0] == oldest
    assert f"Python {oldest} or later" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == oldest


@pytest.mark.parametrize("name", ["bug_report", "feature_request"])
def test_issue_forms_meet_github_requirements(name):
    form = yaml.safe_load(FORMS[name].read_text(encoding="utf-8"))
    assert form.keys() >= {"name", "description", "body"}
    for field in form["body"]:
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert field["type"] == "textarea"
        assert field["attributes"].keys() <= {"label", "description", "render"}
        assert field["attributes"]["label"]
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
def test_the_bug_form_command_prints_versions():
    [command] = re.findall(r"`(python .+)`", FORMS["bug_report"].read_text(encoding="utf-8"))
    words = [sys.executable, *shlex.split(command)[1:]]
    printed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for part in (f"'minitransformer': '{mg.__version__}'", "'numpy': ", "'platform': ", "'kernels': "):
        assert part in printed


def test_extras_named_in_code_and_docs_exist():
    folders = ["minigrad", "minitransformer", "docs", "benchmarks", "tools"]
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text(encoding="utf-8") for path in sources if path.suffix in (".py", ".toml", ".md")]
    texts += [path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")]
    named = re.findall(r"(?:minitransformer|'\.)\[([a-z]+)\]", "\n".join(texts))
    assert len(named) > 10
    assert set(named) <= PROJECT["optional-dependencies"].keys()
