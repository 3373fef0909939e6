"""Random calls beside PyTorch: integers, booleans, half precision, nothing at all, and strides.

A call is a sample of PyTorch's operator database with its tensors changed: cast to other dtypes (all to one,
or each to its own), an axis made empty, or laid out in memory as a transposed, sliced, reversed or expanded
view has it. It goes to both libraries, as a function, by another name, as a method or in place. Compared are
whether it is refused, the shapes, dtypes and values of the results, the gradients, and that no input changed.
What PyTorch refuses and minigrad computes has to be what PyTorch computes of the same numbers in float64.

A value in floating point agrees if it is PyTorch's to a few roundings, or as near to what PyTorch computes in
float64. What differs otherwise is an error, unless random_calls.toml has it with a reason. The test makes a
few calls; `run(40_000)` looks for more.
"""

from __future__ import annotations

import functools
import itertools
import random
import tomllib
import zlib
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import torch

import minigrad as mg
from minigrad.core.dtypes import is_floating
from minigrad.core.errors import MinigradError
from tests.golden.entries import SPELLINGS, flat, ours_of

from .comparing import OF_TORCH_ALONE
from .test_op_db import ENTRIES as FLOATING_ENTRIES
from .test_op_db import draws_nothing, left_out, op_db

KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["difference"]
for known in KNOWN:
    known["calls"] = {
        name: dtypes for dtypes, names in known.get("calls", {}).items() for name in names.split()
    }

SAMPLES = 60  # the most samples of each entry

WHOLE = ["uint8", "int8", "int16", "int32", "int64"]
HALVES = ["float16", "bfloat16"]
FLOATS = ["float32", "float64"]
DTYPES = ["bool", *WHOLE, *HALVES, *FLOATS]
GROUPS = {"whole": ["bool", *WHOLE], "floats": HALVES + FLOATS}
LAYOUTS = ["contiguous", "transposed", "sliced", "reversed", "expanded"]

DROPOUTS = {"dropout", "alpha_dropout", "dropout2d", "dropout3d", "scaled_dot_product_attention"}


def entry_name(op):
    return op.name + (f"/{op.variant_test_name}" if op.variant_test_name else "")


def is_drawn(name):
    return name.startswith("nn.functional.") and name.rpartition(".")[2] in DROPOUTS


ENTRIES = {
    entry_name(op): op
    for op in op_db
    if ours_of(entry_name(op)) and (is_drawn(op.name) or not left_out(entry_name(op)))
}


# ---------------------------------------------------------------- one call


class Call(NamedTuple):
    """Arguments for both libraries, and how they are passed."""

    name: str
    form: str  # "function", "method", "in place", or another name of the function
    theirs: tuple  # (args, kwargs)
    ours: tuple
    pairs: list  # (theirs, ours) of each tensor; they require gradients, but where one is changed in place
    finish: object  # what of the results is unique
    drawn: set  # the ids of those that were drawn as floats
    dtypes: tuple
    dtype_class: str  # of those drawn: "uint8", ..., or "mixed", or "none"
    layout: str
    empty: bool

    def __str__(self):
        how = f" ({self.form})" * (self.form != "function") + f" {self.layout}" * (
            self.layout != "contiguous"
        )
        return f"{self.name}{how}: {described(self.theirs)}"


def described(thing):
    if isinstance(thing, torch.Tensor):
        values = str(thing.detach().flatten().tolist()[:8]) if thing.numel() <= 8 else "..."
        return f"{str(thing.dtype).removeprefix('torch.')}{list(thing.shape)}{values}"
    if isinstance(thing, dict):
        return "{" + ", ".join(f"{k}={described(v)}" for k, v in thing.items()) + "}"
    if isinstance(thing, list | tuple):
        return "(" + ", ".join(map(described, thing)) + ")"
    return repr(thing)


@functools.cache
def samples_of(name):
    """The entry's first samples, without gradients."""
    op = ENTRIES[name]
    number = zlib.crc32(name.encode())
    torch.manual_seed(number)
    np.random.seed(number)  # the database uses this generator
    random.seed(number)
    dtype = torch.float64
    if name not in FLOATING_ENTRIES:
        dtype = torch.int64 if torch.int64 in op.dtypes else torch.bool
    found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES))
    if is_drawn(name):
        found = [s for s in found if draws_nothing(s)]
    return found


class Changed:
    """A sample's arguments, changed at random, for both libraries; one tensor stays one tensor."""

    def __init__(self, rng, sample, differentiated):
        self.rng = rng
        self.pairs = []
        self.sources = []
        self.differentiated = differentiated
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        self.mixed = rng.random() < 0.15  # each tensor has a dtype of its own
        self.layout = LAYOUTS[rng.integers(len(LAYOUTS))] if rng.random() < 0.4 else "contiguous"
        self.factor = float(rng.choice([1, 3, 30]))  # by which floats become whole numbers
        self.dtypes = []
        self.drawn = set()
        lengths = sorted({n for t in tensors_of((sample.input, sample.args, sample.kwargs)) for n in t.shape})
        self.emptied = int(rng.choice(lengths)) if lengths and rng.random() < 0.12 else None

    def __call__(self, thing, inside=False):
        """(theirs, ours)"""
        if isinstance(thing, torch.Tensor):
            return self.tensor(thing)
        if isinstance(thing, torch.dtype):
            return thing, str(thing).removeprefix("torch.")
        if isinstance(thing, torch.device):
            return thing, str(thing)
        if isinstance(thing, dict):
            both = {k: self(v, True) for k, v in thing.items() if k not in OF_TORCH_ALONE}
            return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}
        if isinstance(thing, list | tuple):
            both = [self(item, True) for item in thing]
            kind = type(thing) if type(thing) in (list, tuple) else tuple
            return kind(a for a, _ in both), kind(b for _, b in both)
        if type(thing) is int and inside and thing == self.emptied and self.rng.random() < 0.5:
            return 0, 0  # a length that goes with an empty axis
        return thing, thing

    def tensor(self, source):
        for known, pair in zip(self.sources, self.pairs, strict=True):
            if known is source:
                return pair
        x = source.detach().resolve_neg()
        if x.dtype == torch.float64:
            x = self.cast(x, DTYPES[self.rng.integers(len(DTYPES))] if self.mixed else self.dtype)
        elif x.dtype == torch.int64 and self.rng.random() < 0.1:
            x = x.to(torch.int32)
        elif x.dtype == torch.int64 and not source.is_floating_point() and self.dtype in WHOLE:
            info = torch.iinfo(
                getattr(torch, self.dtype)
            )  # numbers and not indices, where the entry has only those
            if x.numel() and info.min <= x.min() and x.max() <= info.max and self.rng.random() < 0.2:
                x = x.to(getattr(torch, self.dtype))
        if self.emptied is not None and self.emptied in x.shape:
            x = x[tuple(slice(0, 0) if n == self.emptied else slice(None) for n in x.shape)]
        pair = self.laid_out(x)
        if x.is_floating_point() and self.differentiated:
            for side in pair:
                side.requires_grad_()
        if source.dtype == torch.float64:
            self.drawn.add(id(pair[0]))
        self.dtypes.append(str(x.dtype).removeprefix("torch."))
        self.sources.append(source)
        self.pairs.append(pair)
        return pair

    def dtype_class(self):
        met = {str(t.dtype).removeprefix("torch.") for t, _ in self.pairs if id(t) in self.drawn}
        return "none" if not met else met.pop() if len(met) == 1 else "mixed"

    def cast(self, x, dtype):
        kind = getattr(torch, dtype)
        if dtype == "bool":
            return x > 0
        if kind.is_floating_point:
            return x.to(kind)
        x = (x * self.factor).round().nan_to_num(0, 0, 0)
        limits = torch.iinfo(kind)
        if not limits.min and (x < 0).any():
            x = x.abs()
        return x.clamp(max(limits.min, -(2**40)), min(limits.max, 2**40)).to(kind)

    def laid_out(self, x):
        """The same numbers with the memory layout of a view, as theirs and ours."""
        layout = self.layout
        if layout == "expanded" and x.ndim and min(x.shape):
            axis = int(self.rng.integers(x.ndim))
            x = x.narrow(axis, 0, 1).contiguous().expand(x.shape)
        elif layout == "transposed" and x.ndim > 1:
            x = x.mT.contiguous().mT
        elif layout == "sliced" and x.ndim:
            wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1] + 1))
            wide[..., 1::2] = x
            x = wide[..., 1::2]
        else:
            x = x.contiguous()
        array = as_numpy(x)
        if layout == "reversed" and x.ndim:
            array = np.flip(np.flip(array).copy())
        elif layout == "contiguous":
            array = array.copy()
        return x.detach(), mg.Tensor(array)


def tensors_of(thing):
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, dict):
        yield from tensors_of(list(thing.values()))
    elif isinstance(thing, list | tuple):
        for item in thing:
            yield from tensors_of(item)


def as_numpy(x):
    """A torch tensor as an array of the same dtype and strides."""
    x = torch.zeros(x.shape, dtype=x.dtype) if x._is_zerotensor() else x.detach().resolve_neg()
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy(force=True)


def forms_of(op):
    """The ways to call an entry that both libraries have."""
    forms = ["function"]
    last = op.name.rpartition(".")[2]
    method = callable(getattr(mg.Tensor, last, None)) and last == op.name and op.name not in SPELLINGS
    if op.method_variant is not None and method:
        forms.append("method")
    if hasattr(torch.Tensor, last + "_") and hasattr(mg.Tensor, last + "_") and method:
        forms.append("in place")
    return forms + [alias.name for alias in op.aliases if ours_of(alias.name) and their_function(alias.name)]


def their_function(name):
    return functools.reduce(lambda room, part: getattr(room, part, None), name.split("."), torch)


def functions_of(op, form):
    """(theirs, ours), called with the same arguments."""
    if form == "function":
        return op, ours_of(entry_name(op))
    if form == "method":
        return op.method_variant, lambda x, *args, **kwargs: getattr(x, op.name)(*args, **kwargs)
    if form == "in place":
        changed = lambda x, *args, **kwargs: getattr(x.detach().clone(), op.name + "_")(*args, **kwargs)
        return changed, changed
    return their_function(form), ours_of(form)


def draw(seed, number, names):
    """Call `number`, the k-th of its entry, which depends on the seed, the entry and k alone."""
    k, place = divmod(number, len(names))
    name = names[place]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), k])
    op = ENTRIES[name]
    samples = samples_of(name)
    sample = samples[rng.integers(len(samples))]
    forms = forms_of(op)
    form = "function" if rng.random() < 0.6 else forms[rng.integers(len(forms))]
    changed = Changed(rng, sample, form != "in place")
    args = changed((sample.input, *sample.args))
    kwargs = changed(sample.kwargs)
    theirs, ours = zip(args, kwargs, strict=True)
    return Call(
        name, form, theirs, ours, changed.pairs, sample.output_process_fn_grad, changed.drawn,
        tuple(changed.dtypes), changed.dtype_class(), changed.layout, changed.emptied is not None,
    )  # fmt: skip


# ---------------------------------------------------------------- both answers, and how they differ


class Difference(NamedTuple):
    kind: str
    said: str


def answer(function, args, kwargs, finish, kind):
    """(results, None), or (None, the error)."""
    try:
        return flat(finish(function(*args, **kwargs)), kind), None
    except Exception as error:  # errors are compared
        return None, error


def is_foreign(error):
    """Whether an error is neither minigrad's nor Python's about a keyword that a function does not take."""
    return not isinstance(error, MinigradError) and "unexpected keyword argument" not in str(error)


def compare(call):
    """How minigrad's answer differs from PyTorch's, or None."""
    their_function, our_function = functions_of(ENTRIES[call.name], call.form)
    before = [[as_numpy(theirs).tobytes(), ours.array.tobytes()] for theirs, ours in call.pairs]
    theirs, refusal = answer(their_function, *call.theirs, call.finish, torch.Tensor)
    ours, error = answer(our_function, *call.ours, call.finish, mg.Tensor)
    if error is not None and is_foreign(error):
        return Difference("foreign exception", f"{type(error).__name__}: {shortened(error)}")
    if refusal is not None:
        return None if error is not None else compare_alone(call, their_function, ours, refusal)
    if error is not None:
        return Difference("refused by minigrad", shortened(error))
    for (a, b), (t, m) in zip(before, call.pairs, strict=True):
        if as_numpy(t).tobytes() == a and m.array.tobytes() != b:
            return Difference("input changed", "an argument has other values after the call")
    if len(theirs) != len(ours):
        return Difference("shape", f"{len(ours)} results, PyTorch has {len(theirs)}")
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        exact = functools.partial(reference, call, their_function, i)
        if found := difference_of(a, b, exact, call):
            return Difference(found.kind, f"result {i}: {found.said}")
    return compare_gradients(call, theirs, ours)


def compare_alone(call, function, ours, refusal):
    """What PyTorch refuses and minigrad computes is at least what PyTorch computes of the same in float64."""
    wide = {id(t): t.detach().double() for t, _ in call.pairs if id(t) in call.drawn}
    for i, a in enumerate(ours):
        exact = reference(call, function, i, wide)
        if exact is None or not isinstance(a, mg.Tensor):
            break
        if tuple(a.shape) != exact.shape:
            return Difference("wrong where PyTorch refuses", f"{tuple(a.shape)}, of floats {exact.shape}")
        whole = not is_floating(a.dtype)
        b = exact.astype(a.array.dtype) if not whole else exact
        if found := far(
            a.array, b, lambda exact=exact: exact, 64 * coarse(call, "float32" if whole else str(a.dtype))
        ):
            return Difference("wrong where PyTorch refuses", f"result {i}: {found.said}")
    return Difference("refused by PyTorch", shortened(refusal))


def coarse(call, dtype):
    """The rounding error of a result: of dtypes that meet, that of the coarsest."""
    met = {dtype, *call.dtypes} if len(set(call.dtypes)) > 1 else {dtype}
    met |= {"float32"} if met & {"bool", *WHOLE} else set()
    return max([2.0**-40, *(float(ml_dtypes.finfo(d).eps) for d in met if d in HALVES + FLOATS)])


def difference_of(ours, theirs, exact, call):
    """How one result differs; `exact()` is what PyTorch computes in float64."""
    if not isinstance(theirs, torch.Tensor):
        same = (
            ours == theirs
            or (ours != ours and theirs != theirs)
            or str(ours) == str(theirs).removeprefix("torch.")
        )
        return None if same else Difference("value", f"{ours!r}, PyTorch has {theirs!r}")
    if not isinstance(ours, mg.Tensor):
        return Difference("dtype", f"{type(ours).__name__}, PyTorch has a tensor")
    if tuple(ours.shape) != tuple(theirs.shape):
        return Difference("shape", f"{tuple(ours.shape)}, PyTorch has {tuple(theirs.shape)}")
    dtype = str(theirs.dtype).removeprefix("torch.")
    a = ours.array
    b = as_numpy(theirs)
    if str(ours.dtype) != dtype:
        wrong = far(a, b, exact, max(coarse(call, dtype), coarse(call, str(ours.dtype))))
        return wrong or Difference("dtype", f"{ours.dtype}, PyTorch has {dtype}")
    if dtype not in HALVES + FLOATS:
        same = (a == b).all()
        return None if same else Difference("value", first_difference(a, b, a != b))
    return far(a, b, exact, coarse(call, dtype))


def far(a, b, exact, eps):
    """Where values a differ from PyTorch's b by more than roundings."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    scale = np.abs(b, where=np.isfinite(b), out=np.zeros(b.shape)).max(initial=0)
    near = lambda a, b, within: (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= within)
    with np.errstate(invalid="ignore"):
        wrong = ~near(a, b, 4 * eps * (np.abs(b) + min(scale, 1.0) + 2.0**-4))
        if not wrong.any():
            return None
        right = exact()
        if right is not None and right.shape == a.shape:
            error = np.abs(b - right, where=np.isfinite(right), out=np.zeros(b.shape))
            theirs_off = error.max(where=np.isfinite(error), initial=0)
            wrong &= ~near(a, right, 4 * theirs_off + 16 * eps * (np.abs(right) + scale))
    return Difference("value", first_difference(a, b, wrong)) if wrong.any() else None


def first_difference(a, b, wrong):
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"at {list(place)} {a[place]!s}, PyTorch has {b[place]!s} ({int(wrong.sum())} of {wrong.size})"


def in_float64(thing, known=()):
    """Floats as float64, integers and booleans as they are; tensors whose id is known as known."""
    if isinstance(thing, torch.Tensor):
        if id(thing) in known:
            return known[id(thing)]
        return thing.detach().double().requires_grad_() if thing.is_floating_point() else thing
    if isinstance(thing, torch.dtype):
        return torch.float64 if thing.is_floating_point else thing
    if isinstance(thing, dict):
        return {k: in_float64(v, known) for k, v in thing.items()}
    return type(thing)(in_float64(x, known) for x in thing) if type(thing) in (list, tuple) else thing


def reference(call, function, i, known=()):
    """Result i as PyTorch computes it in float64, or None."""
    found, error = answer(function, *in_float64(call.theirs, known), call.finish, torch.Tensor)
    if error is not None or not isinstance(found[i], torch.Tensor):
        return None
    return found[i].detach().double().numpy(force=True)


def compare_gradients(call, theirs, ours):
    """How the gradients differ: of the sum of all results times fixed numbers."""
    outs = [
        (b, a) for b, a in zip(theirs, ours, strict=True) if isinstance(b, torch.Tensor) and b.requires_grad
    ]
    if not outs:
        return None
    leaves = [pair for pair in call.pairs if pair[0].requires_grad]
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0.5, 1.5, tuple(b.shape)) for b, _ in outs]
    try:
        expected = torch.autograd.grad(
            [b for b, _ in outs], [t for t, _ in leaves],
            [torch.tensor(w).to(b.dtype) for w, (b, _) in zip(weights, outs, strict=True)],
            allow_unused=True,
        )  # fmt: skip
        refusal = None
    except Exception as error:  # errors are compared
        expected = None
        refusal = error
    if not all(a.requires_grad for _, a in outs):
        return None if refusal else Difference("gradient", "a result has none, PyTorch's has one")
    try:
        found = mg.autograd.grad(
            [a for _, a in outs], [m for _, m in leaves],
            [mg.tensor(w).to(a.dtype) for w, (_, a) in zip(weights, outs, strict=True)],
            allow_unused=True,
        )  # fmt: skip
    except Exception as error:
        if is_foreign(error):
            return Difference("foreign exception", f"gradient: {type(error).__name__}: {shortened(error)}")
        return None if refusal else Difference("gradient refused by minigrad", shortened(error))
    if refusal is not None:
        return Difference("gradient refused by PyTorch", shortened(refusal))
    for i, (g, h) in enumerate(zip(found, expected, strict=True)):
        g = mg.zeros_like(leaves[i][1]) if g is None else g
        h = torch.zeros_like(leaves[i][0]) if h is None else h
        exact = functools.partial(reference_gradient, call, i, weights)
        if difference := difference_of(g, h, exact, call):
            kind = "gradient" if difference.kind == "value" else f"gradient's {difference.kind}"
            return Difference(kind, f"of input {i}: {difference.said}")
    return None


def reference_gradient(call, i, weights):
    """Gradient i as PyTorch computes it in float64, or None."""
    function, _ = functions_of(ENTRIES[call.name], call.form)
    args = in_float64(call.theirs)
    found, error = answer(function, *args, call.finish, torch.Tensor)
    if error is not None:
        return None
    outs = [b for b in found if isinstance(b, torch.Tensor) and b.requires_grad]
    leaves = list(dict.fromkeys(t for t in tensors_of(args) if t.requires_grad))
    if len(outs) != len(weights) or len(leaves) != sum(t.requires_grad for t, _ in call.pairs):
        return None
    try:
        g = torch.autograd.grad(outs, leaves[i], [torch.tensor(w) for w in weights], allow_unused=True)[0]
    except Exception:
        return None
    return None if g is None else g.numpy(force=True)


def shortened(error):
    return " ".join(str(error).split())[:160]


# ---------------------------------------------------------------- what is known, and the program


def is_wrong_in_float64(call):
    """Whether minigrad's values are not those that PyTorch computes of the same numbers in float64."""
    their_function, our_function = functions_of(ENTRIES[call.name], call.form)
    ours, _ = answer(our_function, *call.ours, call.finish, mg.Tensor)
    return compare_alone(call, their_function, ours, "").kind == "wrong where PyTorch refuses"


def listed(call, difference):
    """The reason of random_calls.toml that this difference has, or None."""
    empty = call.empty or any(0 in t.shape for t, _ in call.pairs)
    for known in KNOWN:
        if difference.kind not in known["kinds"]:
            continue
        if not any(words in difference.said for words in known.get("said", [""])):
            continue
        if known.get("empty", False) and not empty:
            continue
        if known.get("form", call.form) != call.form:
            continue
        calls = known["calls"] or {call.name: call.dtype_class}
        name = call.name if call.name in calls else call.name.partition("/")[0]
        dtypes = itertools.chain.from_iterable(GROUPS.get(d, [d]) for d in calls.get(name, "").split())
        if call.dtype_class in dtypes and not (known.get("exact") and is_wrong_in_float64(call)):
            return known["reason"]
    return None


def run(count, seed=0, names=None):
    """Make the calls: what differs without a reason, and how many agree."""
    names = names or list(ENTRIES)
    new = {}
    agree = 0
    for number in range(count):
        call = draw(seed, number, names)
        difference = compare(call)
        agree += difference is None
        if difference is not None and listed(call, difference) is None:
            new.setdefault((call.name, difference.kind), []).append((number, call, difference))
    return new, agree
