"""Values and gradients that PyTorch gave for its own samples; `python -m tools.golden` stores them."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

from .entries import cotangents, flat, on_valid_matrices, ours_of, trained

with np.load(Path(__file__).parent / "golden.npz") as stored:
    POOLS = {name: stored[name] for name in stored.files}
CONTENT = json.loads(POOLS.pop("records").tobytes())
ENTRIES = CONTENT["entries"]


def array(pool, start, shape, dtype):
    return POOLS[pool][start : start + int(np.prod(shape))].reshape(shape).astype(dtype)


def decode(x, tensors):
    """Return arguments from their JSON."""
    if isinstance(x, list):
        return [decode(item, tensors) for item in x]
    if not isinstance(x, dict):
        return x
    ((kind, content),) = x.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "function":
        return getattr(nn.functional, content)
    if kind == "dict":
        return {key: decode(value, tensors) for key, value in content.items()}
    return {"slice": lambda items: slice(*items), "tuple": tuple}[kind](decode(content, tensors))


def assert_same(ours, stored, what):
    if not isinstance(stored, list):
        assert ours == stored or (ours != ours and stored != stored), what
        return
    expected = array(*stored)
    assert ours.dtype == stored[3], what
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-6, atol=1e-9, err_msg=what)


def call(entry, args, kwargs, tensors):
    """Return the results of an entry, and a module's buffers."""
    if "op" in entry:
        function = on_valid_matrices(ours_of(entry["op"]), entry["op"], entry["symmetric"])
        return function(*args, **kwargs), []
    made, options = decode(entry["constructor"], tensors)
    module = getattr(nn, entry["module"])(*made, **options).double().train(entry["training"])
    for name, value in decode(entry["state"], tensors).items():
        path, _, last = name.rpartition(".")
        setattr(module.get_submodule(path), last, value)
    return module(*args, **kwargs), list(module.buffers())


def check(entry):
    tensors = [(nn.Parameter if leaf else mg.tensor)(array(*ref)) for *ref, leaf in entry["tensors"]]
    leaves = [x for x in tensors if x.requires_grad]
    if "optimizer" in entry:
        settings = copy.deepcopy(decode(entry["settings"], tensors))
        outs = trained(mg, entry["optimizer"], settings, entry["groups"], entry["closure"])
        buffers = []
    else:
        args, kwargs = (decode(entry[key], tensors) for key in ("args", "kwargs"))
        outs, buffers = call(entry, args, kwargs, tensors)
        outs = flat(outs, mg.Tensor)
    for i, (ours, stored) in enumerate(zip(outs, entry["values"], strict=True)):
        assert_same(ours, stored, f"value of result {i}")
    for i, (ours, stored) in enumerate(zip(buffers, entry.get("buffers", []), strict=True)):
        assert_same(ours, stored, f"buffer {i}")
    if entry["gradients"] is not None:
        outs = [out for out in outs if isinstance(out, mg.Tensor) and out.requires_grad]
        weights = [mg.Tensor(w) for w in cotangents(outs)]
        found = mg.autograd.grad(outs, leaves, weights, allow_unused=True)
        for i, (g, x, stored) in enumerate(zip(found, leaves, entry["gradients"], strict=True)):
            assert_same(mg.zeros_like(x) if g is None else g, stored, f"gradient of input {i}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRIES)
def test_values_and_gradients_match_recorded_pytorch(name):
    for entry in ENTRIES[name]:
        check(entry)


def test_every_left_out_entry_has_a_reason():
    assert all(CONTENT["left_out"].values())
    assert not CONTENT["left_out"].keys() & ENTRIES.keys()
