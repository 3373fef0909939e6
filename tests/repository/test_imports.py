"""What imports what: no circles, and no part that knows one after it."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("minigrad", "minitransformer")
    for path in sorted((ROOT / package).rglob("*.py"))
}


def nodes_that_run(node):
    """All of the syntax tree but what stands under `if TYPE_CHECKING:`."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        waiting += node.orelse if is_typing else ast.iter_child_nodes(node)


def name_of(function):
    """`f` of a call f() or module.f()."""
    return getattr(function, "attr", getattr(function, "id", ""))


def imports_in(source, module, is_package=False, known=FILES):
    """The names that `source` imports, within functions too: modules of `known`, and others' packages.

    `from package import name` imports the module package.name if there is one, the package otherwise.
    """
    found = set()
    packages = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes_that_run(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = packages[: len(packages) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name if name in known else base for name in names}
        elif isinstance(node, ast.Call) and name_of(node.func) == "import_module":
            # a computed name chooses kernels, or a command, at run time
            found |= {name.value for name in node.args[:1] if isinstance(name, ast.Constant)}
    return {name if name in known else name.partition(".")[0] for name in found} - {module}


@cache
def imports_of(module):
    path = FILES[module]
    return imports_in(path.read_text(encoding="utf-8"), module, path.name == "__init__.py")


def with_packages(module, imported):
    """The imported modules of ours, and the packages that Python runs before them.

    A package that `module` lies in itself is left out: it is being imported already, and waits for `module`.
    """
    ours = {name for name in imported if name in FILES}
    above = {name.rsplit(".", n)[0] for name in ours for n in range(1, name.count(".") + 1)}
    return ours | {package for package in above if not f"{module}.".startswith(f"{package}.")}


def circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.slow
def test_there_are_no_circular_imports():
    """No module imports itself by way of others, imports within functions included.

    `from package import name` imports the package's `__init__`, and package.name if that is a module.
    `package.module` that is imported from within `package` does not import the package's `__init__`, which
    runs already and may import the importer; a name that only the `__init__` defines still does.
    """
    assert not circle({module: with_packages(module, imports_of(module)) for module in FILES})


def test_import_search_finds_nested_and_package_imports():
    known = {"p", "p.a", "p.b", "p.sub", "p.sub.c", "p.sub.d"}
    find = lambda source, module: imports_in(source, module, known=known)
    assert find("def f():\n    from . import b", "p.a") == {"p.b"}
    assert find("class A:\n    def f(self):\n        import p.sub.c", "p.a") == {"p.sub.c"}
    assert find("from . import something", "p.a") == {"p"}
    assert find("from .sub import c, name", "p.a") == {"p.sub.c", "p.sub"}
    assert find("from ..b import name", "p.sub.c") == {"p.b"}
    assert find("x = import_module('p.b').name", "p.a") == {"p.b"}
    assert find("if TYPE_CHECKING:\n    from .b import name\nelse:\n    from .sub import c", "p.a") == {
        "p.sub.c"
    }
    assert find("try:\n    import numpy.linalg\nexcept ImportError:\n    pass", "p.a") == {"numpy"}
    assert circle({"p.a": {"p.b"}, "p.b": {"p.sub"}, "p.sub": {"p.a"}})
    assert with_packages("minigrad.func", ["minigrad.core.grad"]) == {"minigrad.core.grad", "minigrad.core"}
    assert with_packages("minigrad.core.op", ["minigrad.core.grad"]) == {"minigrad.core.grad"}


# the parts of each package in their order: a file imports only from its own part and those before it
ORDERS = {
    "minigrad": (
        "core", "ops", "nn optim utils", "kernels", "checks", "graph", "debug", "capture", "more",
    ),
    "minitransformer": (
        "layers", "models", "inspection", "text", "data", "pretrained", "generation", "tasks", "training",
        "recipes", "runs", "plots", "explain", "claims", "cli",
    ),
}  # fmt: skip
RANKS = {
    f"{package}.{folder}": rank
    for package, order in ORDERS.items()
    for rank, part in enumerate(order)
    for folder in part.split()
}
RANKS["minitransformer"] = -1  # files beside the rooms, such as minitransformer.errors, are before them
RANKS["minigrad"] = RANKS["minigrad.nn"]  # public modules, such as minigrad.func


def rank(module):
    """The place of a module's part in the order of its package."""
    package, part = module.split(".")[:2]
    return RANKS.get(f"{package}.{part}", RANKS[package])


NOT_AT_ONCE = {  # imported where they are needed: they are optional, or slow to import
    "cupy", "graphviz", "latex2mathml", "matplotlib", "mpi4py", "numba", "nvmath", "sacrebleu", "torch",
}  # fmt: skip


ASSEMBLY = {f"{package}{name}" for package in ORDERS for name in ("", ".__main__")}  # all parts


MORE = "minigrad.more"
LATE = {"minigrad.capture.interception"}  # these import it within functions


def test_packages_import_only_lower_layers():
    wrong = []
    for module in FILES.keys() - ASSEMBLY:
        package = module.partition(".")[0]
        ours = {name for name in imports_of(module) if name in FILES and name.partition(".")[0] == package}
        if module in LATE:
            ours = {name for name in ours if not name.startswith(MORE)}
        wrong += [(module, name) for name in ours if name == package or rank(name) > rank(module)]
    assert not wrong


def test_the_more_package_is_imported_lazily():
    importers = {
        module
        for module in FILES
        if not module.startswith(MORE) and any(name.startswith(MORE) for name in imports_of(module))
    }
    assert importers <= {*LATE, *ASSEMBLY}


def test_core_depends_only_on_numpy_and_ml_dtypes():
    core = [module for module in FILES if module.startswith("minigrad.core")]
    others = set().union(*map(imports_of, core)) - FILES.keys() - sys.stdlib_module_names
    assert others <= {"numpy", "ml_dtypes"}


def test_minigrad_does_not_import_minitransformer():
    for module in FILES:
        if module.partition(".")[0] == "minigrad":
            assert not any(name.startswith("minitransformer") for name in imports_of(module)), module


WHEN_ASKED_FOR = {f"minigrad.{part}" for part in ("checks", "debug", "graph", "more")}


def test_importing_loads_no_optional_or_slow_package():
    program = f"""
import sys
import minigrad as mg, minitransformer
unwanted = {NOT_AT_ONCE | WHEN_ASKED_FOR | {"numpy.random", "secrets"}!r}
assert not unwanted & sys.modules.keys(), unwanted & sys.modules.keys()
x = mg.ones(2, 2)
found = x.tril, x.sort, mg.nn.ReLU, mg.nn.MSELoss, mg.nn.functional.mse_loss, mg.gradcheck, mg.graph.trace
assert all(map(callable, found))
model = minitransformer.GPT(minitransformer.GPTConfig(8, 4, n_embd=4, n_layer=1, n_head=1))
optimizer = mg.optim.AdamW(model.parameters())
mg.nn.functional.cross_entropy(model([[1, 2]]).reshape(-1, 8), [2, 3]).backward()
optimizer.step()
minitransformer.generate(model, [[1]], max_new_tokens=2)
assert "minigrad.more" not in sys.modules
bound = set(mg.ops.METHODS) | set(mg.ops.PROPERTIES)
found = mg.Tensor.acosh, x.acosh, mg.einsum, mg.linalg.svd, mg.nn.Conv1d, mg.nn.functional.conv1d
found += mg.ops.einsum, mg.optim.LBFGS, mg.optim.lr_scheduler.StepLR
assert all(map(callable, found))
from minigrad.late_names import OF_TENSOR
unbound = {{name for name in OF_TENSOR.split() if f"Tensor.{{name}}" in mg.more.missing_names.TABLE}}
assert {{*OF_TENSOR.split()}} - unbound == {{*mg.ops.METHODS, *mg.ops.PROPERTIES}} - bound
from minigrad.nn import *
Conv2d
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
