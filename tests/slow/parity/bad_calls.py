"""Calls of the library with exactly one bad argument, beside PyTorch's same calls.

    python -m tests.slow.parity.bad_calls --count 10000

Valid calls come from PyTorch's own databases of operators and modules, and from `OTHERS` below. In each, one
argument is replaced by something that it cannot be. What is asked for: minigrad's own error (or a TypeError
that names the arguments), never another library's; no call that does not end; a refusal wherever PyTorch
refuses, of a class that the same `except` catches. What differs on purpose is in `bad_calls.toml`, with the
reason. The calls run in child processes with little memory, and each has a time limit.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import fnmatch
import inspect
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import minigrad as mg
from minigrad import nn
from tests.golden.entries import ours_of
from tests.slow.parity.comparing import Converter
from tests.slow.parity.test_op_db import COVERED, ENTRIES

MEMORY = 3 << 30  # bytes that a child may use
SECONDS = 5  # for one call
REASONS = Path(__file__).with_suffix(".toml")


# ---------------------------------------------------------------- bad arguments


def self_containing():
    items: list = [1.0]
    items.append(items)
    return items


class Bad(NamedTuple):
    """A bad argument: its name, and a function that makes it of `mg` or `torch`."""

    name: str
    make: Callable[[Any], Any]


def same(name, value):
    return Bad(name, lambda library: value)


def of_array(name, array):
    return Bad(name, lambda library: library.tensor(array.copy()))


BAD = [
    same("None", None), same("string", "zzz"), same("empty string", ""), same("bytes", b"x"),
    same("True", True), same("float", 1.5), same("nan", float("nan")), same("inf", float("inf")),
    same("-inf", -float("inf")), same("-1", -1), same("-3", -3), same("7", 7), same("0", 0),
    same("10**12", 10**12), same("2**63", 2**63), same("2**64", 2**64), same("-10**30", -(10**30)),
    same("empty tuple", ()), same("empty list", []), same("nested list", [[1.0, [2.0]]]),
    same("ragged list", [[1.0], [2.0, 3.0]]), Bad("self-containing list", lambda _: self_containing()),
    same("list of strings", ["a"]), same("list of None", [None]), same("list of floats", [1.5]),
    same("duplicate axes", (0, 0)), same("axes out of range", (0, 9)), same("negative sizes", (-2, 3)),
    same("huge sizes", (10**6, 10**7)), same("dictionary", {}), same("object", object()),
    same("function", len), same("class", dict), same("complex", 1j), same("Ellipsis", ...),
    same("slice", slice(0, 1)), same("set", {1, 2}), same("generator", (i for i in "")),
    same("ndarray", np.ones((2, 3))), same("array of strings", np.array(["a"])),
    same("array of objects", np.array([None, 1], object)),
    Bad("module", lambda library: library.nn.Linear(2, 3)),
    Bad("class of module", lambda library: library.nn.Linear),
    Bad("dtype", lambda library: library.float32),
    of_array("tensor of no axes", np.array(2.0)), of_array("tensor of other shape", np.ones((7, 3, 5))),
    of_array("empty tensor", np.ones(0)), of_array("tensor of integers", np.array([[1, 200], [3, 4]])),
    of_array("tensor of booleans", np.array([[True, False]])),
    of_array("tensor of halves", np.ones((2, 3), np.float16)),
    of_array("tensor of nan", np.full((2, 3), np.nan)),
]  # fmt: skip


# ---------------------------------------------------------------- valid calls


class Valid(NamedTuple):
    """A call that both accept. `build` makes, of a library, (function, args, kwargs)."""

    name: str
    build: Callable[[Any], tuple[Callable, list, dict]]
    slots: list[Any]  # positions and names of the arguments that may be replaced
    compared: bool = True  # whether PyTorch has the same

    def is_tensor(self, slot):
        """Whether an argument is a tensor, or a list of them."""
        _, args, kwargs = self.build(mg)
        value = args[slot] if isinstance(slot, int) and slot < len(args) else kwargs.get(slot)
        items = value if isinstance(value, list | tuple) and value else [value]
        return all(isinstance(item, mg.Tensor) for item in items)


def argument(call, slot):
    """The name of an argument, for the table of reasons."""
    return slot if isinstance(slot, str) else f"#{slot}"


def database_calls(rng, count) -> Iterator[Valid]:
    """Samples of PyTorch's operator database, of at most `count` of its entries."""
    for name in rng.sample(COVERED, min(count, len(COVERED))):
        op = ENTRIES[name]
        ours = ours_of(name)
        if getattr(ours, "__name__", "") == "<lambda>":
            continue
        with contextlib.suppress(Exception):
            samples = list(zip(range(12), op.sample_inputs("cpu", torch.float64), strict=False))
            for _, sample in rng.sample(samples, min(2, len(samples))):
                yield from valid_sample(name.split("/")[0], op.op, ours, sample, rng)


def valid_sample(name, theirs, ours, sample, rng):
    args = [sample.input, *sample.args]
    method = name.split(".")[-1]
    options = [("", theirs, ours)]
    both = hasattr(torch.Tensor, method) and hasattr(mg.Tensor, method)
    if both and "." not in name and isinstance(sample.input, torch.Tensor):
        options.append(("Tensor.", getattr(torch.Tensor, method), getattr(mg.Tensor, method)))
    prefix, theirs, ours = rng.choice(options)
    is_method = inspect.isfunction(ours) and "." not in name and getattr(mg, method, None) is not ours
    unbound = is_method and not prefix

    def build(library):
        if library is torch:
            return theirs, copy.deepcopy(args), dict(sample.kwargs)
        convert = Converter()
        return ours, convert(args), convert(dict(sample.kwargs))

    k = build(mg)[2]
    slots = [*range(1 if prefix or unbound else 0, len(args)), *k]  # without the tensor of a method
    names = set(settings_of(ours)) - set(k)
    slots += [n for n in names if shared_default(theirs, args, sample.kwargs, ours, n)]
    yield Valid(prefix + name, build, slots)


def settings_of(function):
    """The parameters of one of our functions that have a default."""
    op = getattr(function, "op", None)
    source = op.source if op is not None else function
    with contextlib.suppress(TypeError, ValueError):
        return [p.name for p in inspect.signature(source).parameters.values() if p.default is not p.empty]
    return []


def shared_default(theirs, args, kwargs, ours, name):
    """Whether PyTorch knows the parameter: it takes its default."""
    op = getattr(ours, "op", None)
    default = inspect.signature(op.source if op is not None else ours).parameters[name].default
    try:
        theirs(*copy.deepcopy(args), **kwargs, **{name: default})
    except Exception:
        return False
    return True


def module_calls(rng, count) -> Iterator[Valid]:
    """Constructors and forward of at most `count` modules of PyTorch's database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    for info in rng.sample(module_db, min(count, len(module_db))):
        theirs = info.module_cls
        ours = getattr(nn, theirs.__name__, None)
        if ours is None:
            continue
        inputs = info.module_inputs_func(info, "cpu", torch.float32, False, True)
        for given in rng.sample(inputs, min(2, len(inputs))):
            yield from valid_module(theirs, ours, given)


def valid_module(theirs, ours, given):
    made, passed = given.constructor_input, given.forward_input

    def construct(library):
        if library is torch:
            return theirs, list(copy.deepcopy(made.args)), dict(made.kwargs)
        convert = Converter()
        return ours, convert(list(made.args)), convert(dict(made.kwargs))

    _, args, kwargs = construct(mg)
    with contextlib.suppress(Exception):
        own = [p.name for p in inspect.signature(ours).parameters.values() if p.default is not p.empty]
        known = inspect.signature(theirs).parameters
        slots = [*range(len(args)), *kwargs, *[n for n in own[len(args) :] if n in known and n not in kwargs]]
        yield Valid(f"nn.{ours.__name__}", construct, slots)
    if passed is None:
        return

    def run(library):
        cls, args, kwargs = construct(library)
        module = cls(*args, **kwargs)
        convert = (lambda x: copy.deepcopy(x)) if library is torch else Converter()
        return module, convert(list(passed.args)), convert(dict(passed.kwargs))

    slots = [*range(len(passed.args)), *passed.kwargs]
    yield Valid(f"nn.{ours.__name__}.forward", run, slots)


def call(name, function, *args, compared=True, **kwargs):
    """A valid call by hand. `function` is a path ("optim.SGD") or takes the library and returns a function;
    an argument that is a `Make` is made of the library."""

    def build(library):
        made = lambda x: x.make(library) if isinstance(x, Make) else x
        found = function(library) if callable(function) else attribute(library, function)
        return found, [made(x) for x in args], {k: made(v) for k, v in kwargs.items()}

    return Valid(name, build, [*range(len(args)), *kwargs], compared)


class Make(NamedTuple):
    make: Callable[[Any], Any]


def attribute(library, path):
    for name in path.split("."):
        library = getattr(library, name)
    return library


X = Make(lambda lib: lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
GX = Make(lambda lib: lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True))
WEIGHTS = Make(lambda lib: [lib.tensor([1.0, 2.0], requires_grad=True)])
LINEAR = Make(lambda lib: lib.nn.Linear(3, 2))
STATE = Make(lambda lib: lib.nn.Linear(3, 2).state_dict())
OPTIMIZER = Make(lambda lib: lib.optim.SGD([lib.tensor([1.0, 2.0], requires_grad=True)], lr=0.1))
LOSS = Make(lambda lib: (lib.tensor([1.0, 2.0], requires_grad=True) ** 2).sum())
CUBE = Make(lambda lib: lambda x: (x**3).sum())


def of(make, name):
    """The method `name` of what `make` makes."""
    return lambda lib: getattr(make.make(lib), name)


def graph_of(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    return x, (x * x).sum()


def grad_with(lib):
    x, y = graph_of(lib)
    return lambda outputs=y, inputs=x, **settings: lib.autograd.grad(
        y if outputs is None else outputs, x if inputs is None else inputs, **settings
    )


def checkpoint_of(lib):
    return mg.autograd.checkpoint if lib is mg else torch.utils.checkpoint.checkpoint


def saver(lib):
    from safetensors.torch import save_file

    return mg.save_file if lib is mg else save_file


def loader(lib):
    from safetensors.torch import load_file

    return mg.load_file if lib is mg else load_file


def other_calls() -> list[Valid]:
    """What PyTorch's databases do not have: optimizers, schedules, transforms, modules' methods, files."""
    folder = tempfile.mkdtemp()
    written = os.path.join(folder, "t.safetensors")
    mg.save_file({"x": mg.ones(2)}, written)
    schedule = lambda name, *args, **kwargs: call(
        f"lr_scheduler.{name}", f"optim.lr_scheduler.{name}", OPTIMIZER, *args, **kwargs
    )
    tensor = lambda name, *args, **kwargs: call(f"Tensor.{name}", of(X, name), *args, **kwargs)
    module = lambda name, *args, **kwargs: call(f"Module.{name}", of(LINEAR, name), *args, **kwargs)
    init = lambda name, *args, **kwargs: call(f"nn.init.{name}", f"nn.init.{name}", X, *args, **kwargs)
    calls = [
        call("tensor", "tensor", [[1.0, 2.0]], dtype=Make(lambda lib: lib.float32), requires_grad=False),
        call("as_tensor", "as_tensor", [[1.0, 2.0]], dtype=Make(lambda lib: lib.float32)),
        *[
            call(name, name, 2, 3, dtype=Make(lambda lib: lib.float32), requires_grad=False)
            for name in ("zeros", "ones", "empty", "rand", "randn")
        ],
        *[call(name, name, (2, 3)) for name in ("zeros", "ones", "empty", "rand", "randn")],
        *[
            call(name, name, X, dtype=Make(lambda lib: lib.float32), requires_grad=False)
            for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
        ],
        call("full", "full", (2, 3), 1.5),
        call("full_like", "full_like", X, 1.5),
        call("eye", "eye", 3, 4),
        call("arange", "arange", 1, 5, 2),
        call("arange", "arange", 4),
        call("linspace", "linspace", 0.0, 1.0, 5),
        call("logspace", "logspace", 0.0, 1.0, 5, base=10.0),
        call("randint", "randint", 0, 5, (2, 3)),
        call("randperm", "randperm", 5),
        call("randint_like", "randint_like", X, 0, 5),
        call("scalar_tensor", "scalar_tensor", 2.0),
        call("from_numpy", "from_numpy", Make(lambda lib: np.ones(3))),
        call("from_dlpack", "from_dlpack", X),
        call("manual_seed", "manual_seed", 3),
        call("set_grad_enabled", "set_grad_enabled", True),
        call("is_grad_enabled", "is_grad_enabled"),
        call(
            "optim.SGD",
            "optim.SGD",
            WEIGHTS,
            lr=0.1,
            momentum=0.9,
            dampening=0.0,
            weight_decay=0.1,
            nesterov=False,
        ),
        call("optim.Adam", "optim.Adam", WEIGHTS, lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
        call("optim.AdamW", "optim.AdamW", WEIGHTS, lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
        call(
            "Optimizer.add_param_group",
            of(OPTIMIZER, "add_param_group"),
            Make(lambda lib: {"params": [lib.ones(2, requires_grad=True)]}),
        ),
        call(
            "Optimizer.load_state_dict",
            of(OPTIMIZER, "load_state_dict"),
            Make(lambda lib: OPTIMIZER.make(lib).state_dict()),
        ),
        call("Optimizer.zero_grad", of(OPTIMIZER, "zero_grad"), set_to_none=True),
        schedule("LambdaLR", Make(lambda lib: lambda t: 0.9**t)),
        schedule("StepLR", 2, gamma=0.5),
        schedule("MultiplicativeLR", Make(lambda lib: lambda t: 0.9)),
        schedule("MultiStepLR", [2, 3], gamma=0.5),
        schedule("ExponentialLR", 0.9),
        schedule("CosineAnnealingLR", 5, eta_min=0.01),
        schedule("LinearLR", 0.5, 1.0, total_iters=3),
        schedule("ConstantLR", 0.5, total_iters=3),
        schedule("PolynomialLR", 3, power=1.0),
        schedule("OneCycleLR", 0.5, total_steps=10, pct_start=0.3),
        schedule("CosineAnnealingWarmRestarts", 3, T_mult=1),
        schedule("CyclicLR", 0.1, 0.5, 3),
        schedule("ReduceLROnPlateau", "min", factor=0.5, patience=2),
        call("autograd.grad", "autograd.grad", LOSS, GX, allow_unused=True),
        call(
            "autograd.grad",
            grad_with,
            grad_outputs=None,
            retain_graph=False,
            create_graph=False,
            allow_unused=False,
        ),
        call("Tensor.backward", of(LOSS, "backward"), gradient=None, retain_graph=False, create_graph=False),
        call("autograd.checkpoint", checkpoint_of, CUBE, GX),
        call("func.grad", "func.grad", CUBE, argnums=0, has_aux=False),
        call("func.grad()", lambda lib: lib.func.grad(CUBE.make(lib)), X),
        call("func.vjp", "func.vjp", CUBE, X),
        call(
            "func.jvp", "func.jvp", CUBE, Make(lambda lib: (X.make(lib),)), Make(lambda lib: (X.make(lib),))
        ),
        call("func.hessian()", lambda lib: lib.func.hessian(CUBE.make(lib)), X),
        call(
            "func.hvp",
            "func.hvp",
            CUBE,
            Make(lambda lib: (X.make(lib),)),
            Make(lambda lib: (X.make(lib),)),
            compared=False,
        ),
        call("func.jacobian", "func.jacobian", CUBE, argnums=0, compared=False),
        call("func.jacobian()", lambda lib: lib.func.jacobian(CUBE.make(lib)), X, compared=False),
        call("func.value_and_grad()", lambda lib: lib.func.value_and_grad(CUBE.make(lib)), X, compared=False),
        call(
            "nn.utils.clip_grad_norm_",
            lambda lib: lib.optim.clip_grad_norm_ if lib is mg else torch.nn.utils.clip_grad_norm_,
            WEIGHTS,
            1.0,
        ),
        tensor("to", Make(lambda lib: lib.float32)),
        tensor("to", dtype=Make(lambda lib: lib.float32), copy=True),
        tensor("size", 0),
        tensor("fill_", 2.0),
        tensor("copy_", X),
        tensor("add_", X, alpha=2),
        tensor("sub_", X, alpha=2),
        tensor("mul_", 2.0),
        tensor("div_", 2.0),
        tensor("zero_"),
        tensor("normal_", 0.0, 1.0),
        tensor("uniform_", 0.0, 1.0),
        tensor("requires_grad_", True),
        tensor("clamp_", 0.0, 1.0),
        tensor("masked_fill_", Make(lambda lib: X.make(lib) > 2), 0.0),
        tensor("register_hook", CUBE),
        tensor("__getitem__", 0),
        tensor("__getitem__", (0, slice(0, 2))),
        tensor("__setitem__", 0, 1.0),
        tensor("new_zeros", (2, 3)),
        tensor("new_ones", (2, 3)),
        tensor("new_full", (2, 3), 1.0),
        tensor("new_tensor", [1.0]),
        tensor("type", Make(lambda lib: lib.float64)),
        tensor("item", compared=False),
        tensor("tolist"),
        tensor("detach"),
        tensor("numpy"),
        tensor("dim"),
        tensor("view", 3, 2),
        tensor("view", (3, 2)),
        tensor("reshape", 3, 2),
        tensor("reshape", (3, -1)),
        tensor("expand", 4, 2, 3),
        tensor("repeat", 2, 1),
        tensor("permute", 1, 0),
        tensor("permute", (1, 0)),
        tensor("flatten", 0, 1),
        tensor("sum", (0, 1), keepdim=True),
        tensor("softmax", 0),
        tensor("mean", 0),
        *[
            tensor(f"__{name}__", 2.0)
            for name in (
                "add",
                "radd",
                "sub",
                "rsub",
                "mul",
                "truediv",
                "rtruediv",
                "pow",
                "rpow",
                "floordiv",
                "mod",
                "lt",
                "le",
                "gt",
                "ge",
                "iadd",
                "imul",
            )
        ],
        tensor("__matmul__", Make(lambda lib: lib.ones(3, 2))),
        tensor("__eq__", 2.0, compared=False),
        module("load_state_dict", STATE, strict=True),
        module("train", True),
        module("to", "cpu"),
        module("register_buffer", "b", X),
        module("register_buffer", "b", X, persistent=False),
        module("register_parameter", "p", Make(lambda lib: lib.nn.Parameter(lib.ones(2)))),
        module("add_module", "m", LINEAR),
        module("apply", Make(lambda lib: lambda m: None)),
        module("register_forward_hook", Make(lambda lib: lambda *a: None), compared=False),
        module("requires_grad_", True),
        module("zero_grad", set_to_none=True),
        module("named_parameters", prefix="", recurse=True),
        module("state_dict", prefix=""),
        module("get_parameter", "weight"),
        module("get_submodule", ""),
        module("get_buffer", "weight", compared=False),
        module("__call__", X),
        call("nn.Sequential", "nn.Sequential", LINEAR, LINEAR),
        call("nn.ModuleList", "nn.ModuleList", Make(lambda lib: [LINEAR.make(lib)])),
        call("nn.ModuleDict", "nn.ModuleDict", Make(lambda lib: {"a": LINEAR.make(lib)})),
        call("nn.ParameterList", "nn.ParameterList", Make(lambda lib: [lib.nn.Parameter(lib.ones(2))])),
        call("nn.Parameter", "nn.Parameter", X, requires_grad=True),
        call("nn.Dropout", "nn.Dropout", 0.5),
        call("nn.Dropout2d", "nn.Dropout2d", 0.5),
        call("nn.Flatten", "nn.Flatten", 1, -1),
        call("nn.Unflatten", "nn.Unflatten", 1, (3, 1)),
        call("nn.Flatten.forward", lambda lib: lib.nn.Flatten(), X),
        call("nn.Dropout.forward", lambda lib: lib.nn.Dropout(), X),
        call("nn.Identity.forward", lambda lib: lib.nn.Identity(), X),
        call("nn.PixelShuffle", "nn.PixelShuffle", 2),
        call("nn.Upsample", "nn.Upsample", scale_factor=2),
        call("nn.Fold", "nn.Fold", (4, 4), 2),
        call("nn.Unfold", "nn.Unfold", 2),
        call("nn.CosineSimilarity", "nn.CosineSimilarity", 1, 1e-8),
        call("nn.PairwiseDistance", "nn.PairwiseDistance", 2.0, 1e-6, keepdim=False),
        call("nn.TripletMarginLoss", "nn.TripletMarginLoss", margin=1.0, p=2.0, swap=False),
        call("F.dropout", "nn.functional.dropout", X, 0.5, training=True),
        call(
            "F.dropout2d",
            "nn.functional.dropout2d",
            Make(lambda lib: lib.ones(2, 3, 4, 4)),
            0.5,
            training=True,
        ),
        call("F.alpha_dropout", "nn.functional.alpha_dropout", X, 0.5, training=True),
        call(
            "F.linear",
            "nn.functional.linear",
            X,
            Make(lambda lib: lib.ones(4, 3)),
            Make(lambda lib: lib.ones(4)),
        ),
        call("F.layer_norm", "nn.functional.layer_norm", X, (3,), Make(lambda lib: lib.ones(3)), eps=1e-5),
        call(
            "F.embedding", "nn.functional.embedding", Make(lambda lib: lib.tensor([0, 1])), X, padding_idx=0
        ),
        call("F.one_hot", "nn.functional.one_hot", Make(lambda lib: lib.tensor([0, 1])), 3),
        call("F.softmax", "nn.functional.softmax", X, dim=1),
        call("F.softmin", "nn.functional.softmin", X, dim=1),
        call(
            "F.cross_entropy",
            "nn.functional.cross_entropy",
            X,
            Make(lambda lib: lib.tensor([0, 1])),
            label_smoothing=0.1,
            ignore_index=-100,
            reduction="mean",
        ),
        init("uniform_", 0.0, 1.0),
        init("normal_", 0.0, 1.0),
        init("constant_", 1.0),
        init("zeros_"),
        init("ones_"),
        init("xavier_uniform_", 1.0),
        init("xavier_normal_", 1.0),
        init("kaiming_uniform_", 0.0),
        call("save_file", saver, Make(lambda lib: {"x": lib.ones(2)}), os.path.join(folder, "u.safetensors")),
        call("load_file", loader, written),
        call("random.set_step", "random.set_step", 3, compared=False),
        call("random.rows", "random.rows", 3, compared=False),
        call("optim.cosine_schedule", "optim.cosine_schedule", 1, 0.1, 10, 2, 0.0, compared=False),
        call("optim.paper_schedule", "optim.paper_schedule", 1, 64, 10, compared=False),
        call("optim.inverse_sqrt_schedule", "optim.inverse_sqrt_schedule", 1, 0.1, 10, compared=False),
        call(
            "gradcheck",
            "gradcheck",
            CUBE,
            Make(lambda lib: lib.tensor([1.0, 2.0], dtype=lib.float64)),
            eps=1e-6,
            order=1,
            compared=False,
        ),
        call("graph.trace", "graph.trace", LOSS, compared=False),
        call("autocast", "autocast", "cpu", compared=False),
        call("fused", "ops.fused", True, compared=False),
    ]
    return [valid for valid in calls if has(valid)]


def has(valid):
    """Whether minigrad (and PyTorch, where it is compared) takes the valid call."""
    for library in (mg, torch) if valid.compared else (mg,):
        try:
            function, args, kwargs = valid.build(library)
            function(*args, **kwargs)
        except Exception as error:
            print(
                f"left out, {library.__name__} does not take it: {valid.name}: {error!r:.150}",
                file=sys.stderr,
            )
            return False
    return True


def accepted(valid):
    try:
        for library in (mg, torch):
            function, args, kwargs = valid.build(library)
            with np.errstate(all="ignore"):
                function(*args, **kwargs)
    except Exception:
        return False
    return True


# ---------------------------------------------------------------- one call


class BadCall(NamedTuple):
    valid: Valid
    slot: Any  # a position, a name, or "unknown keyword", "one too many", "one too few"
    bad: Bad

    @property
    def name(self):
        return f"{self.valid.name}({argument(self.valid, self.slot)}={self.bad.name})"

    def run(self, library):
        function, args, kwargs = self.valid.build(library)
        if self.slot == "unknown keyword":
            kwargs["zzz"] = 1
        elif self.slot == "one too many":
            args = [*args, *[0] * 9]
        elif self.slot == "one too few":
            args = args[:-1]
        else:
            (args if isinstance(self.slot, int) else kwargs)[self.slot] = self.bad.make(library)
        return function(*args, **kwargs)


SIGNATURE = ["unknown keyword", "one too many", "one too few"]


class Outcome(NamedTuple):
    """None where a call was accepted, else the class of the error, its builtin classes and its text."""

    kind: str
    builtin: tuple[str, ...]
    text: str


def outcome(bad_call, library) -> Outcome | None:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = bad_call.run(library)
            if inspect.isgenerator(result) or isinstance(result, Iterator):
                list(zip(range(3), result, strict=False))
    except Exception as error:
        builtin = tuple(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
        ours = isinstance(error, mg.MinigradError)
        if not ours and by_this_file(error):
            return Outcome("by the function that was passed", (), str(error))
        kind = type(error).__name__ if ours else f"{type(error).__module__}.{type(error).__name__}"
        return Outcome(("minigrad." if ours else "") + kind, builtin, str(error))
    return None


def by_this_file(error):
    """Whether a function of this file, which a call was given, raised the error."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename == __file__ and trace.tb_frame.f_code.co_name == "<lambda>"


# ---------------------------------------------------------------- many calls, in child processes


def serve(calls, start, pipe):
    """Run the calls from number `start` on, and say before and after each what happens."""
    os.chdir(tempfile.mkdtemp())  # a call may write a file
    resource.setrlimit(resource.RLIMIT_AS, (in_use() + MEMORY, in_use() + MEMORY))
    sys.setrecursionlimit(1000)
    for i in range(start, len(calls)):
        found = []
        for library in (mg, torch):
            pipe.send((i, library.__name__))
            found.append(outcome(calls[i], library) if library is mg or calls[i].valid.compared else None)
            if library is mg and found[0] is None and breaks_what_follows():
                found[0] = Outcome("breaks what follows", (), "")
        pipe.send((i, found))
    pipe.send(None)


def breaks_what_follows():
    """Whether random numbers cannot be drawn any more, or gradients are not recorded."""
    try:
        mg.set_grad_enabled(True)
        (nn.Linear(2, 1)(mg.rand(2)).sum()).backward()
    except Exception:
        return True
    return False


def in_use():
    """Bytes of address space that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def run_all(calls):
    """(call, ours, theirs) of each; where a child hangs or dies the outcome says so."""
    context = multiprocessing.get_context("fork")
    start = 0
    results = []
    while start < len(calls):
        mine, theirs = context.Pipe()
        child = context.Process(target=serve, args=(calls, start, theirs), daemon=True)
        child.start()
        theirs.close()
        doing = (start, "minigrad")
        try:
            while mine.poll(SECONDS):
                told = mine.recv()
                if told is None:
                    start = len(calls)
                    break
                i, doing_or_found = told
                if isinstance(doing_or_found, str):
                    doing = told
                else:
                    results.append((calls[i], *doing_or_found))
                    start = i + 1
            else:
                results.append(_ended(calls, doing, "hangs"))
                start = doing[0] + 1
        except EOFError:
            results.append(_ended(calls, doing, "dies"))
            start = doing[0] + 1
        child.kill()
        child.join()
    return results


def _ended(calls, doing, how):
    i, library = doing
    ended = Outcome(how, (), "")
    return (calls[i], ended, None) if library == "minigrad" else (calls[i], None, Outcome("", (how,), ""))


def draw_calls(count, seed=0, names="*"):
    """`count` bad calls: each valid one as often as the others."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        valid = [
            *filter(accepted, [*database_calls(rng, count // 5), *module_calls(rng, count // 20)]),
            *other_calls(),
        ]
    valid = [v for v in valid if fnmatch.fnmatchcase(v.name, names)]
    groups = collections.defaultdict(list)
    for v in valid:
        groups[v.name].append(v)
    drawn = []
    names = list(groups)
    while len(drawn) < count:
        rng.shuffle(names)
        for name in names:
            v = rng.choice(groups[name])
            slot = rng.choice([*v.slots * 12, *SIGNATURE])
            drawn.append(BadCall(v, slot, rng.choice(BAD) if slot not in SIGNATURE else same("", None)))
    return drawn[:count]


# ---------------------------------------------------------------- verdicts


class Verdict(NamedTuple):
    kind: str  # "foreign", "hangs", "not refused", "not caught", "no advice" or "" where all is well
    call: str
    said: str


def verdict(call, ours, theirs) -> Verdict:
    said = " | torch: ".join(f"{x.kind}: {x.text!r:.300}" if x else "accepted" for x in (ours, theirs))
    if ours is not None and ours.kind.startswith("by "):
        return Verdict("", call.name, said)
    if ours is not None and not ours.builtin:
        return Verdict(ours.kind, call.name, said)
    if ours is not None and not ours.kind.startswith("minigrad."):
        if ours.kind != "builtins.TypeError" or "argument" not in ours.text:
            return Verdict("foreign", call.name, said)
    elif ours is not None and "\n" not in ours.text:
        return Verdict("no advice", call.name, said)
    if theirs is None or not theirs.builtin or theirs.builtin[0] in ("dies", "hangs"):
        return Verdict("", call.name, said)
    if ours is None:
        return Verdict("not refused", call.name, said)
    if theirs.builtin[0] not in ours.builtin:
        return Verdict("not caught", call.name, said)
    return Verdict("", call.name, said)


def reason_for(reasons, found: Verdict, call, ours, theirs):
    """Why a difference is on purpose, or None."""
    for entry in reasons:
        if (
            found.kind == entry["verdict"]
            and any(fnmatch.fnmatchcase(call.valid.name, p) for p in entry.get("calls", ["*"]))
            and any(
                fnmatch.fnmatchcase(argument(call.valid, call.slot), p) for p in entry.get("arguments", ["*"])
            )
            and call.bad.name in entry.get("values", [call.bad.name])
            and (not entry.get("tensors") or call.valid.is_tensor(call.slot))
            and (ours is None or ours.kind.removeprefix("minigrad.") in entry.get("ours", ours.kind))
            and any(fnmatch.fnmatchcase(theirs.text, p) for p in entry.get("said", ["*"]))
            and theirs.builtin[0] in entry.get("classes", [theirs.builtin[0]])
        ):
            return entry["why"]
    return None


class Tally:
    """What the calls came to: verdicts by kind, differences on purpose, and which error classes met."""

    def __init__(self, calls):
        reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))["difference"]
        self.found: dict[str, list[Verdict]] = collections.defaultdict(list)
        self.classes: collections.Counter = collections.Counter()
        self.listed: collections.Counter = collections.Counter()
        self.refused = [0, 0]  # here, and by PyTorch
        for call, ours, theirs in run_all(calls):
            self.refused[0] += ours is not None
            self.refused[1] += theirs is not None
            judged = verdict(call, ours, theirs)
            if ours and theirs and ours.builtin and theirs.builtin:
                self.classes[ours.kind, theirs.builtin[0]] += 1
            why = reason_for(reasons, judged, call, ours, theirs) if judged.kind and theirs else None
            if why:
                self.listed[judged.kind, why] += 1
            elif judged.kind:
                self.found[judged.kind].append(judged)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", default="*", help="only calls of these names, as a shell pattern")
    parser.add_argument("--show", type=int, default=20, help="how many of each kind to print")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    calls = draw_calls(arguments.count, arguments.seed, arguments.names)
    print(f"{len(calls)} calls of {len({c.valid.name for c in calls})} functions")
    tally = Tally(calls)
    print(f"refused: {tally.refused[0]} here, {tally.refused[1]} by PyTorch")
    for pair, n in tally.classes.most_common():
        print(f"{n:6d}  {pair[0]} where PyTorch raises {pair[1]}")
    for (kind, why), n in tally.listed.most_common():
        print(f"{n:6d}  {kind}, on purpose: {why}")
    for kind in ("foreign", "no advice", "hangs", "dies", "breaks what follows", "not refused", "not caught"):
        print(f"{len(tally.found[kind]):6d}  {kind}")
    for kind, verdicts in tally.found.items():
        print(f"\n{kind}:" if verdicts else "")
        for judged in verdicts[: arguments.show]:
            print(f"  {judged.call}\n      {judged.said}")
    return 1 if any(tally.found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
