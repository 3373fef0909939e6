"""Pages of the root and of docs/: links lead somewhere, examples give what they show, counts are true."""

import ast
import contextlib
import io
import linecache
import re
import shlex
from pathlib import Path

import pytest

from minigrad.core.registry import ops, registry
from minitransformer.cli import VERBS
from minitransformer.layers.config import NORMS
from minitransformer.models.presets import PRESETS
from minitransformer.models.protocol import MODELS
from minitransformer.recipes import load_recipe, names

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)

FOLDERS = ("minigrad", "minitransformer", "demos", "benchmarks", "tools", "tests")
TEXTS = {".py", ".pyi", ".toml", ".js", ".html", ".css", ".ipynb", ".md"}
PAGE_NAME = re.compile(r"\b((?:docs/[\w./-]+|README|CONTRIBUTING)\.md)(?:#([\w-]+))?")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page, language):
    return [code for kind, code in BLOCK.findall(TEXT[page]) if kind == language]


def prose(page):
    return BLOCK.sub("", TEXT[page])


def anchors(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ---------------------------------------------------------------- links, files, size


def test_the_readme_is_at_most_7000_bytes():
    assert len((ROOT / "README.md").read_bytes()) <= 7000


@pages
def test_links_in_the_docs_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pages
def test_linked_functions_exist_in_the_linked_files(page):
    for name, file in re.findall(r"\[`([A-Za-z_][\w.]*)(?:\(\))?`\]\(([^)\s]+\.py)\)", prose(page)):
        defined = definitions((page.parent / file).resolve())
        assert name.endswith(".py") or defined.issuperset(name.split(".")), f"{name} in {file}"


def definitions(file):
    """The names of all functions and classes of a file, at any depth."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_pages_named_in_code_exist():
    sources = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.suffix in TEXTS]
    found = 0
    for file in [*sources, ROOT / "pyproject.toml", *PAGES]:
        for name, anchor in PAGE_NAME.findall(file.read_text(encoding="utf-8")):
            found += 1
            assert (ROOT / name).is_file(), f"{name} in {file}"
            assert not anchor or anchor in anchors(ROOT / name), f"{name}#{anchor} in {file}"
    assert found > 50


def test_dated_figures_are_only_on_the_results_page():
    date = re.compile(
        r"\b(January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d"
    )
    dated = [page.name for page in PAGES if date.search(TEXT[page]) or "EPYC" in TEXT[page]]
    assert dated == ["results.md"]


@pages
def test_files_named_in_the_docs_exist(page):
    folders = "minigrad|minitransformer|tests|tools|benchmarks|demos|docs"
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", prose(page))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing


@pages
def test_commands_in_the_docs_name_existing_verbs_and_files(page):
    for code in blocks(page, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            for word, following in zip(words, [*words[1:], ""], strict=True):
                if word == "minitransformer":
                    assert following in VERBS, line
                elif word == "train":
                    assert following in names() or following.endswith(".toml") or following[:5] == "runs/", (
                        line
                    )
                elif word.endswith(".py"):
                    assert (ROOT / word).is_file() or word == "script.py", line
                elif word == "-m" and following.startswith(("minigrad", "benchmarks", "tools")):
                    path = ROOT / following.replace(".", "/")
                    assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), line


def test_each_picture_of_the_gallery_has_its_command():
    text = TEXT[ROOT / "docs" / "looking-inside.md"]
    made = re.findall(r"^minitransformer .* -o (\w+)\.html$", text, re.MULTILINE)
    assert re.findall(r"^!\[.+\]\(gallery-(\w+)\.webp\)$", text, re.MULTILINE) == made != []


def test_each_page_of_docs_is_linked_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[^)#\s]+\.md)", TEXT[ROOT / "README.md"]))
    others = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert linked == others - {"docs/index.md"}  # the site's front page, as the README is the repository's


def test_each_page_is_at_most_two_links_from_start():
    near = {ROOT / "docs" / "start.md"}
    for _ in range(2):
        near |= {target for page in near for target in linked_pages(page)}
    assert near >= set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "index.md"}


def linked_pages(page):
    links = re.findall(r"\]\(([^)\s#]+\.md)", TEXT[page])
    return [target for link in links if (target := (page.parent / link).resolve()) in TEXT]


# ---------------------------------------------------------------- examples


@pytest.fixture
def own_registry():
    """Ops, models and norms that an example defines are gone after it."""
    before = dict(registry), dict(ops), dict(MODELS), dict(NORMS)
    yield
    for table, old in zip((registry, ops, MODELS, NORMS), before, strict=True):
        table.clear()
        table.update(old)


def matches(actual, shown):
    """Whether text is as shown, where `...` stands for anything and all white space is the same."""
    parts = (re.escape(" ".join(part.split())) for part in shown.split("..."))
    return re.fullmatch(r"\s*" + r".*".join(parts) + r"\s*", " ".join(actual.split()), re.DOTALL)


def run(code, namespace):
    """What an example prints, and the error that ended it. A comment beside an expression is its value."""
    Path("example.py").write_text(code, encoding="utf-8")  # messages show lines of it
    linecache.clearcache()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            for statement in ast.parse(code).body:
                if not isinstance(statement, ast.Expr):
                    exec(compile(ast.Module([statement], []), "example.py", "exec"), namespace)
                    continue
                value = eval(compile(ast.Expression(statement.value), "example.py", "eval"), namespace)
                comment = re.search(r"  # (.*)$", code.splitlines()[statement.end_lineno - 1])
                shown = comment[1].partition(";")[0] if comment else "..."
                if value is not None and not matches(repr(value), shown):
                    pytest.fail(f"{value!r}, shown as {shown}")
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            return printed.getvalue(), error
    return printed.getvalue(), None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of examples that make a NaN
@pytest.mark.parametrize("page", [page for page in PAGES if EXAMPLE.search(TEXT[page])], ids=lambda p: p.name)
def test_doc_examples_run_and_print_the_shown_output(page, tmp_path, monkeypatch, own_registry):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "example"}
    for code, shown in EXAMPLE.findall(TEXT[page]):
        if page.name == "README.md":  # where each example is copied alone
            namespace = {"__name__": "example"}
        printed, error = run(code, namespace)
        if error is not None and not shown:
            raise error
        assert not shown or matches(printed, shown), f"{code}\nprinted\n{printed}"


@pages
def test_recipes_shown_in_the_docs_can_be_loaded(page, tmp_path):
    for i, code in enumerate(blocks(page, "toml")):
        file = tmp_path / f"recipe{i}.toml"
        if code.startswith("[expect]"):  # the end of a recipe
            recipe = (ROOT / "minitransformer/recipes/phrasebook.toml").read_text(encoding="utf-8")
            code = recipe.partition("[expect]")[0] + code
        file.write_text(code, encoding="utf-8")
        load_recipe(str(file))


def test_each_model_and_preset_is_on_the_page_of_models():
    page = TEXT[ROOT / "docs" / "models.md"]
    missing = [name for name in PRESETS if f"`{name}`" not in page]
    modules = {path.partition(":")[0] for path in MODELS.values() if isinstance(path, str)}
    missing += [name for name in modules if f"({name.replace('.', '/')}.py)".replace("(", "(../") not in page]
    assert not missing
