"""What modules do besides computing, against torch.nn.Module: traversal, assignment, hooks, states."""

import copy
import random

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

LIBRARIES = (nn, torch.nn)


def tensor_of(library, array):
    return mg.tensor(array) if library is nn else torch.tensor(array)


def random_network(library, seed):
    """A network of random shape in which modules and parameters are shared, some of them None."""
    draw = random.Random(seed)
    made = [library.Linear(2, 2), library.LayerNorm(2), library.ReLU()]
    for _ in range(draw.randrange(2, 8)):
        kind = draw.choice(["Sequential", "ModuleList", "ModuleDict", "plain"])
        parts = [draw.choice(made) for _ in range(draw.randrange(4))]
        if kind == "Sequential":
            module = library.Sequential(*parts)
        elif kind == "ModuleList":
            module = library.ModuleList(parts)
        elif kind == "ModuleDict":
            module = library.ModuleDict({f"n{j}": part for j, part in enumerate(parts)})
        else:
            module = library.Module()
            for j, part in enumerate(parts):
                setattr(module, f"part{j}", part)
            module.register_parameter("weight", draw.choice([None, made[0].weight]))
            module.register_buffer("table", tensor_of(library, np.ones(2)), persistent=draw.random() < 0.5)
            if parts and draw.random() < 0.5:
                module.part0 = None
        if draw.random() < 0.3:
            module = copy.deepcopy(module)
        if draw.random() < 0.3:
            module.add_module("last", library.Linear(2, 3, bias=False))
        made.append(module)
    return made[-1]


def traversals(module):
    names = {id(m): name for name, m in module.named_modules()}
    visited = []
    module.apply(lambda m: visited.append(names[id(m)]))
    first = lambda pairs: [name for name, _ in pairs]
    return {
        "apply": visited,
        "children": [names[id(m)] for m in module.children()],
        "named_children": first(module.named_children()),
        "modules": [names[id(m)] for m in module.modules()],
        "named_modules": first(module.named_modules()),
        "all modules": first(module.named_modules(prefix="x", remove_duplicate=False)),
        "named_parameters": first(module.named_parameters()),
        "all parameters": first(module.named_parameters(remove_duplicate=False)),
        "own": first(module.named_parameters("y", recurse=False)),
        "named_buffers": first(module.named_buffers()),
        "state": list(module.state_dict()),
        "printed": str(module),
    }


def lookups(module):
    """What each path of the module leads to, by the first path of that; what fails, by the built-in error."""
    by_id = {}
    for kind in ("modules", "parameters", "buffers"):
        by_id |= {id(x): name for name, x in getattr(module, f"named_{kind}")()}
    found = {}
    for kind in ("module", "parameter", "buffer"):
        look_up = getattr(module, "get_submodule" if kind == "module" else f"get_{kind}")
        paths = [name for name, _ in getattr(module, f"named_{kind}s")(remove_duplicate=False)]
        for path in [*paths, "0", "part0", "absent", "0.absent", "last.weight"]:
            try:
                found[kind, path] = by_id[id(look_up(path))]
            except AttributeError:
                found[kind, path] = "nothing"
    return found


def replaced(library, seed, strict):
    """A random network after modules at random paths, some of which are not there, have been replaced."""
    module = random_network(library, seed)
    draw = random.Random(seed)
    log = []
    for _ in range(3):
        paths = [name for name, _ in module.named_modules(remove_duplicate=False)]
        path = draw.choice([*paths, "absent", "0.weight", "absent.absent"])
        try:
            module.set_submodule(path, library.Tanh(), strict)
            log.append(traversals(module))
        except (AttributeError, ValueError) as error:
            log.append(isinstance(error, AttributeError))
    return log


@pytest.mark.parametrize("seed", range(60))
def test_traversal_of_random_networks_matches_pytorch(seed):
    ours, theirs = (
        [
            traversals(random_network(library, seed)), lookups(random_network(library, seed)),
            replaced(library, seed, strict=seed % 2 == 0),
        ]
        for library in LIBRARIES
    )  # fmt: skip
    assert ours == theirs


VALUES = {
    "Parameter": lambda library: library.Parameter(tensor_of(library, np.zeros(2))),
    "tensor": lambda library: tensor_of(library, np.zeros(2)),
    "ndarray": lambda library: np.zeros(2),
    "number": lambda library: 3,
    "None": lambda library: None,
    "module": lambda library: library.ReLU(),
}


@pytest.mark.parametrize("seed", range(100))
def test_random_attribute_assignments_match_pytorch(seed):
    """Through attributes, dictionaries and registering; what PyTorch refuses is refused."""
    found = []
    for library in LIBRARIES:
        draw = random.Random(seed)
        module = library.Module()
        log = []
        for _ in range(12):
            name = draw.choice("abc")
            value = VALUES[draw.choice(list(VALUES))](library)
            action = draw.choice(["set", "set", "set", "delete", "parameter", "buffer", "module"])
            try:
                if action == "set":
                    setattr(module, name, value)
                elif action == "delete":
                    delattr(module, name)
                elif action == "module":
                    module.add_module(name, value)
                else:
                    getattr(module, f"register_{action}")(name, value)
                log.append("done")
            except (TypeError, KeyError, AttributeError, mg.errors.MinigradError):
                log.append("refused")
            log.append(
                [sorted(members) for members in (module._parameters, module._buffers, module._modules)]
            )
            log.append((sorted(module.state_dict()), len(list(module.parameters())), hasattr(module, name)))
        found.append(log)
    assert found[0] == found[1]


# ---------------------------------------------------------------- hooks


def two(library):
    class Two(library.Module):
        def forward(self, x, y, factor=1.0):
            return x * y * factor, x + y, (mg if library is nn else torch).arange(2)

    return Two()


def numbers(gradients):
    return [
        None if g is None else np.asarray(g.detach() if hasattr(g, "detach") else g).tolist()
        for g in gradients
    ]


def full_backward(library, use, change):
    """What backward hooks see, and the gradients that come out."""
    module = two(library)
    x, y = (tensor_of(library, np.array(v)).requires_grad_() for v in ([1.0, 2.0], [3.0, 5.0]))
    if use == "one input":
        y = y.detach()
    elif use == "no input":
        x = x.detach()
        y = y.detach()
        module.scale = library.Parameter(tensor_of(library, np.array(2.0)))
        module.register_forward_hook(lambda m, args, out: (out[0] * m.scale, out[1] * m.scale, 0))
    seen = []

    def before(m, grad_output):
        seen.append(("before", numbers(grad_output)))
        return tuple(None if g is None else g * 3 for g in grad_output) if change else None

    def after(m, grad_input, grad_output):
        seen.append(("after", numbers(grad_input), numbers(grad_output)))
        return tuple(None if g is None else g * 10 for g in grad_input) if change else None

    module.register_full_backward_hook(after)
    module.register_full_backward_pre_hook(before)
    handle = module.register_full_backward_hook(lambda *_: seen.append("removed"))
    handle.remove()
    product, total, _ = module(x, y)
    loss = product.sum() if use == "one output" else (product * total).sum()
    loss.backward()
    return seen, numbers([x.grad, y.grad])


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("change", [False, True])
@pytest.mark.parametrize("use", ["both", "one input", "one output", "no input"])
def test_full_backward_hooks_match_pytorch(use, change):
    ours, theirs = (full_backward(library, use, change) for library in LIBRARIES)
    assert ours == theirs


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph:UserWarning")
def test_backward_hooks_in_a_second_derivative():
    found = []
    for library in LIBRARIES:
        layer = two(library)
        layer.register_full_backward_hook(lambda m, inputs, outputs: tuple(g * g for g in inputs))
        x = tensor_of(library, np.array([1.0, 2.0])).requires_grad_()
        (layer(x, x * x)[0].sum()).backward(create_graph=True)
        g = x.grad
        x.grad = None
        (g**2).sum().backward()
        found.append(numbers([g, x.grad]))
    assert found[0] == found[1]


def forward_hooks(library):
    module = two(library)
    seen = []
    module.register_forward_pre_hook(lambda m, args: seen.append(len(args)))
    module.register_forward_pre_hook(
        lambda m, args, kwargs: ((args[0] * 2, *args[1:]), {"factor": 5.0}),
        with_kwargs=True,
        prepend=True,
    )
    module.register_forward_hook(
        lambda m, args, kwargs, out: seen.append((numbers(args), kwargs, numbers(out))), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, out: out[0], prepend=True)
    x = tensor_of(library, np.array([1.0, 2.0]))
    return seen, numbers([module(x, x, factor=7.0)])


def test_forward_hooks_get_keyword_arguments_in_pytorchs_order():
    assert forward_hooks(nn) == forward_hooks(torch.nn)


# ---------------------------------------------------------------- containers

CHANGES = {
    "pop": lambda L, m: m.pop(1),
    "del": lambda L, m: m.__delitem__(slice(0, 2)),
    "append": lambda L, m: m.append(L.Tanh()),
    "insert": lambda L, m: m.insert(1, L.Tanh()),
    "extend": lambda L, m: m.extend([L.Tanh(), L.GELU()]),
    "set": lambda L, m: m.__setitem__(-1, L.Tanh()),
    "+": lambda L, m: print(m + type(m)(*([L.GELU()] if isinstance(m, L.Sequential) else [[L.GELU()]]))),
    "+=": lambda L, m: m.__iadd__(type(m)(*([L.GELU()] if isinstance(m, L.Sequential) else [[L.GELU()]]))),
    "slice": lambda L, m: print(m[1:], m[:-1], m[::2]),
    "*": lambda L, m: print(m * 2, 2 * m) if isinstance(m, L.Sequential) else None,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("kind", ["ModuleList", "Sequential"])
def test_module_list_and_sequential_changes_match_pytorch(kind, change, capsys):
    found = []
    for library in LIBRARIES:
        shared = library.Linear(1, 2)
        modules = [shared, library.ReLU(), shared]
        container = getattr(library, kind)(*(modules if kind == "Sequential" else [modules]))
        change(library, container)
        found.append((str(container), list(container.state_dict()), len(container), capsys.readouterr().out))
    assert found[0] == found[1]


def test_dictionaries_of_parameters():
    found = []
    for library in LIBRARIES:
        make = lambda n, library=library: library.Parameter(tensor_of(library, np.ones(n)))
        d = library.ParameterDict({"a": make(1)})
        d.update({"b": make(2)})
        log = [d.get("a").shape[0], d.get("x"), d.setdefault("c", make(3)).shape[0], list(d)]
        d |= library.ParameterDict({"d": make(4)})
        both = d | library.ParameterDict({"a": make(5)})
        log += [
            d.popitem()[0],
            list(d.keys()),
            [p.shape[0] for p in both.values()],
            d.pop("a").shape[0],
            "a" in d,
        ]
        found.append(log)
    assert found[0] == found[1]
