"""Store what PyTorch gives for its own databases of samples, so that tests compare with it without torch.

    python -m tools.golden    # needs the extra `parity`; writes tests/golden/golden.npz

For each operation, module and optimizer that minigrad has: a few samples, their values and first gradients.
Inputs are rounded to float16 and computed with in float64; results are stored in float32.
"""

import copy
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from tests.golden.entries import cotangents, flat, on_valid_matrices, trained
from tests.slow.parity import test_module_db as modules
from tests.slow.parity import test_op_db as ops
from tests.slow.parity import test_optim_db as optimizers
from tests.slow.parity.comparing import OF_TORCH_ALONE

PATH = Path(__file__).parents[1] / "tests/golden/golden.npz"
SAMPLES = 5  # at most, of an entry
ELEMENTS = 3600  # at most, of all tensors of an entry


class NotStored(Exception):
    """Why a sample is left out."""


class Record:
    """One sample: a table of its tensors, and JSON that refers to them."""

    def __init__(self, pools):
        self.pools = pools  # all records' numbers, by dtype
        self.leaves = []
        self.inputs = []
        self.refs = []
        self.size = 0

    def store(self, x, dtype_of_floats):
        """Return [pool, start, shape, dtype] of a tensor."""
        dtype = str(x.dtype).removeprefix("torch.")
        if x.is_complex():
            raise NotStored("complex")
        pool = dtype_of_floats if x.is_floating_point() else dtype
        array = x.numpy(force=True)
        stored = array.astype(pool)
        if not np.array_equal(np.isfinite(array), np.isfinite(stored)):
            raise NotStored(f"beyond the range of {pool}")
        self.size += array.size
        numbers = self.pools[pool]
        start = len(numbers)
        numbers.extend(stored.ravel().tolist())
        return [pool, start, list(array.shape), dtype]

    def encode(self, x):
        """Return arguments as JSON; a tensor becomes its number in the record's table of inputs."""
        if isinstance(x, torch.Tensor):
            for i, known in enumerate(self.inputs):
                if known is x:
                    return {"tensor": i}
            if x.is_floating_point():
                with torch.no_grad():
                    x.data = x.data.to(torch.float16).to(x.dtype)
            self.inputs.append(x)
            self.refs.append([*self.store(x, "float16"), x.requires_grad])
            return {"tensor": len(self.inputs) - 1}
        if isinstance(x, torch.dtype):
            return str(x).removeprefix("torch.")
        if isinstance(x, torch.device):
            return str(x)
        if isinstance(x, dict):
            return {"dict": {key: self.encode(v) for key, v in x.items() if key not in OF_TORCH_ALONE}}
        if isinstance(x, slice):
            return {"slice": self.encode([x.start, x.stop, x.step])}
        if isinstance(x, tuple):
            return {"tuple": self.encode(list(x))}
        if isinstance(x, list):
            return [self.encode(item) for item in x]
        if callable(x) and hasattr(torch.nn.functional, getattr(x, "__name__", "")):
            return {"function": x.__name__}
        if x is None or isinstance(x, bool | int | float | str):
            return x
        raise NotStored(f"an argument of type {type(x).__name__}")

    def result(self, x):
        return self.store(x, "float32") if isinstance(x, torch.Tensor) else x

    def results(self, outs, ins):
        """Return the values and, by input, the first gradients, as JSON."""
        values = [self.result(out) for out in outs]
        outs = [out for out in outs if isinstance(out, torch.Tensor) and out.requires_grad]
        ins = [x for x in ins if x.requires_grad]
        if not outs or not ins:
            return {"values": values, "gradients": None}
        weights = [torch.tensor(w) for w in cotangents(outs)]
        found = torch.autograd.grad(outs, ins, weights, allow_unused=True)
        zeros = [torch.zeros_like(x) if g is None else g for g, x in zip(found, ins, strict=True)]
        return {"values": values, "gradients": [self.result(g) for g in zeros]}


def op_record(pools, name, sample):
    op = ops.ENTRIES[name]
    if sample.output_process_fn_grad.__qualname__ != "SampleInput.__init__.<locals>.<lambda>":
        raise NotStored("only a part of its results is unique")
    record = Record(pools)
    symmetric = op.gradcheck_wrapper.__name__ == "gradcheck_wrapper_hermitian_input"
    args = record.encode([sample.input, *sample.args])
    kwargs = record.encode(sample.kwargs)
    call = on_valid_matrices(op, op.name, symmetric)
    outs = flat(call(sample.input, *sample.args, **sample.kwargs), torch.Tensor)
    found = record.results(outs, record.inputs if op.supports_autograd else [])
    return record, {"op": op.name, "symmetric": symmetric, "args": args, "kwargs": kwargs, **found}


def module_record(pools, name, sample, training):
    record = Record(pools)
    made = sample.constructor_input
    called = sample.forward_input
    module = modules.ENTRIES[name].module_cls(*made.args, **made.kwargs).double().train(training)
    entry = {"module": name, "training": training}
    entry |= {"constructor": record.encode([list(made.args), made.kwargs])}
    entry |= {"state": record.encode(dict(module.state_dict(keep_vars=True)))}
    entry |= {"args": record.encode(list(called.args)), "kwargs": record.encode(called.kwargs)}
    outs = flat(module(*called.args, **called.kwargs), torch.Tensor)
    entry |= record.results(outs, record.inputs)
    return record, entry | {"buffers": [record.result(b) for b in module.buffers()]}


def optimizer_record(pools, name, settings, groups):
    record = Record(pools)
    closure = optimizers.ENTRIES[name].step_requires_closure
    entry = {"optimizer": name, "settings": record.encode(settings), "groups": groups, "closure": closure}
    found = trained(torch, name, copy.deepcopy(settings), groups, closure)
    return record, entry | record.results([x.detach() for x in found], [])


def samples():
    """Iterate over (entry, function of pools that makes a record)."""
    for name in ops.COVERED:
        op = ops.ENTRIES[name]
        torch.manual_seed(0)
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd):
            yield name, lambda pools, name=name, sample=sample: op_record(pools, name, sample)
    for name in modules.COVERED:
        for sample, training in modules.samples_of(name, torch.float64):
            kwargs = sample.constructor_input.kwargs
            if not any(f"{name}, {key}={x!r}" in modules.LEFT_OUT for key, x in kwargs.items()):
                yield (
                    f"nn.{name}",
                    lambda pools, name=name, sample=sample, training=training: module_record(
                        pools, name, sample, training
                    ),
                )
    for name in optimizers.COVERED:
        info = optimizers.ENTRIES[name]
        for one in info.optim_inputs_func("cpu"):
            if f"settings, {one.desc.lower()}" not in optimizers.LEFT_OUT:
                for groups in sorted({False, info.supports_param_groups}):
                    yield (
                        f"optim.{name}",
                        lambda pools, name=name, one=one, groups=groups: optimizer_record(
                            pools, name, one.kwargs, groups
                        ),
                    )


def main():
    torch.Tensor.bfloat16 = lambda x: x  # in which PyTorch's Muon computes whatever the dtype is
    candidates = defaultdict(list)
    for name, make in samples():
        candidates[name].append(make)
    pools = defaultdict(list)
    stored, left_out = defaultdict(list), {}
    for name, makers in candidates.items():
        for make in spread(makers):
            if len(stored[name]) == SAMPLES:
                break
            left = ELEMENTS - sum(size for size, _ in stored[name])
            lengths = {key: len(numbers) for key, numbers in pools.items()}
            try:
                record, entry = make(pools)
                if record.size > left:
                    raise NotStored(f"more than {ELEMENTS} elements")
                stored[name].append((record.size, {**entry, "tensors": record.refs}))
            except NotStored as why:
                left_out[name] = str(why)
                for key, numbers in pools.items():
                    del numbers[lengths.get(key, 0) :]
    entries = {name: [entry for _, entry in found] for name, found in stored.items() if found}
    left_out = {name: why for name, why in left_out.items() if name not in entries}
    content = {"torch": torch.__version__, "left_out": left_out, "entries": entries}
    text = json.dumps(content, separators=(",", ":"))
    arrays = {key: np.array(numbers, key) for key, numbers in pools.items()}
    np.savez_compressed(PATH, records=np.frombuffer(text.encode(), np.uint8), **arrays)
    count = sum(map(len, entries.values()))
    print(f"{count} samples of {len(entries)} entries, {PATH.stat().st_size / 1e6:.2f} MB")
    for name, why in left_out.items():
        print(f"left out: {name}: {why}")


def spread(items):
    """Return the items in an order in which any first few come from the whole list."""
    order = sorted(range(len(items)), key=lambda i: math.modf(i * 0.6180339887)[0])
    return [items[i] for i in order]


if __name__ == "__main__":
    main()
