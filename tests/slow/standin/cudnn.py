"""`cudnn`, the frontend of cuDNN, where there is no GPU: attention as graphs, computed in the memory that the
addresses name. It has the calls and the arguments that minigrad uses, and is as strict as the real one is:
the steps of a plan in their order, strides that 16 bytes divide, every array of a graph and no other, on the
stream that the handle was given, with as much workspace as was asked for, which holds anything.
"""

import contextlib
import enum
import importlib.machinery
import sys
import types

import ml_dtypes
import numpy as np

from . import graphs
from .cublas import at, owner

data_type = enum.Enum("data_type", "NOT_SET HALF BFLOAT16 FLOAT")
heur_mode = enum.Enum("heur_mode", "A B FALLBACK")
NUMPY = {data_type.HALF: np.float16, data_type.BFLOAT16: ml_dtypes.bfloat16, data_type.FLOAT: np.float32}
STEPS = ["validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans"]
WORKSPACE = 1000


class cudnnGraphNotSupportedError(RuntimeError):
    """The real one's name."""


class Tensor:
    """An array of a graph: how it lies in memory, and what it holds."""

    def __init__(self, dim=(), stride=(), data_type=data_type.NOT_SET, virtual=False):
        self.dim = tuple(dim)
        self.stride = tuple(stride)
        self.data_type = data_type
        self.virtual = virtual

    def set_output(self, is_output):
        self.virtual = not is_output
        return self

    def set_dim(self, dim):
        self.dim = tuple(dim)
        return self

    def set_stride(self, stride):
        self.stride = tuple(stride)
        return self

    def set_data_type(self, kind):
        self.data_type = kind
        return self

    @property
    def size(self):
        """Elements from the first to the last."""
        return 1 + sum((n - 1) * step for n, step in zip(self.dim, self.stride, strict=True))

    def check(self, dim, kind):
        assert self.dim == tuple(dim), f"expected {dim}, got {self.dim}"
        assert self.data_type is kind
        assert not self.virtual
        assert len(self.stride) == 4
        assert all(type(n) is int and n > 0 for n in self.dim + self.stride)
        if self.stride[-1] != 1 and self.dim[-1] != 1:
            raise cudnnGraphNotSupportedError("The stride for the last dimension should be 1")
        apart = 16 // np.dtype(NUMPY[kind]).itemsize
        if kind is not data_type.FLOAT and any(
            step % apart for step, n in zip(self.stride[:3], self.dim[:3], strict=True) if n > 1
        ):
            raise cudnnGraphNotSupportedError("not a multiple of the tensor's 16-byte alignment")

    def numbers(self, pointer):
        dtype = np.dtype(NUMPY[self.data_type])
        memory = at(pointer, dtype, self.size)
        strides = [step * dtype.itemsize for step in self.stride]
        return np.lib.stride_tricks.as_strided(memory, self.dim, strides)


class pygraph:
    """A graph of one node, forward or backward."""

    def __init__(
        self,
        *,
        io_data_type=data_type.NOT_SET,
        intermediate_data_type=data_type.NOT_SET,
        compute_data_type=data_type.NOT_SET,
        handle=None,
    ):
        assert intermediate_data_type is compute_data_type is data_type.FLOAT
        assert isinstance(handle, Handle)
        self.kind = io_data_type
        self.handle = handle
        self.done = []
        self.tensors = []
        self.node = None

    def tensor(self, dim, stride, data_type):
        self.tensors.append(Tensor(dim, stride, data_type))
        return self.tensors[-1]

    def _outputs(self, number):
        outs = [Tensor(virtual=True) for _ in range(number)]
        self.tensors += outs
        return outs

    def sdpa(self, q, k, v, *, is_inference, attn_scale, use_causal_mask):
        assert is_inference is False
        self._node(attn_scale, use_causal_mask, q=q, k=k, v=v)
        self.node["y"], self.node["stats"] = outs = self._outputs(2)
        return outs

    def sdpa_backward(self, q, k, v, o, dO, stats, *, attn_scale, use_causal_mask):
        self._node(attn_scale, use_causal_mask, q=q, k=k, v=v, y=o, g=dO, stats=stats)
        outs = self._outputs(3)
        self.node.update(zip(("d_q", "d_k", "d_v"), outs, strict=True))
        return outs

    def _node(self, scale, is_causal, **tensors):
        assert self.node is None
        assert type(scale) is float
        assert type(is_causal) is bool
        self.scale = scale
        self.is_causal = is_causal
        self.node = tensors

    def _step(self, name):
        assert self.done == STEPS[: STEPS.index(name)], f"{name} after {self.done}"
        self.done.append(name)

    def validate(self):
        self._step("validate")
        batch, heads, queries, width = self.node["q"].dim
        keys = self.node["k"].dim[2]
        value_width = self.node["v"].dim[3]
        rows = (batch, heads, queries)
        shapes = {
            "q": (*rows, width), "k": (batch, heads, keys, width), "v": (batch, heads, keys, value_width),
            "y": (*rows, value_width), "stats": (*rows, 1),
        }  # fmt: skip
        shapes |= {"g": shapes["y"]} | {f"d_{x}": shapes[x] for x in "qkv"}
        for name, tensor in self.node.items():
            tensor.check(shapes[name], data_type.FLOAT if name == "stats" else self.kind)
        assert self.node["stats"].stride == (heads * queries, queries, 1, 1)
        if width % 8 or value_width % 8 or max(width, value_width) > 128:
            raise cudnnGraphNotSupportedError("hidden_dim should be a multiple of 8, and 128 at most")

    def build_operation_graph(self):
        self._step("build_operation_graph")

    def deselect_engines(self, engine_names):
        assert type(engine_names) is list

    def create_execution_plans(self, heuristics):
        assert all(isinstance(mode, heur_mode) for mode in heuristics)
        self._step("create_execution_plans")

    def check_support(self):
        self._step("check_support")

    def build_plans(self):
        self._step("build_plans")
        self.handle.cudnn.plans.append(self)

    def get_workspace_size(self):
        assert self.done == STEPS
        return WORKSPACE

    def execute(self, variant_pack, workspace, handle=None):
        assert self.done == STEPS
        assert handle is self.handle
        assert handle.stream == graphs.Stream.current.ptr
        assert set(variant_pack) == set(self.tensors), "every array of the graph, and no other"
        assert all(type(pointer) is int for pointer in (*variant_pack.values(), workspace))
        for tensor, pointer in variant_pack.items():
            held = owner(pointer)
            end = pointer + tensor.size * np.dtype(NUMPY[tensor.data_type]).itemsize
            assert end <= held.ctypes.data + held.nbytes, "beyond the array's end"
            if pointer % 16:
                raise ValueError("device pointer is not aligned to the tensor's 16-byte alignment.")
        assert owner(workspace).nbytes >= WORKSPACE
        names = {tensor: name for name, tensor in self.node.items()}
        places = {names[tensor]: pointer for tensor, pointer in variant_pack.items()}
        compute = self._backward if "g" in self.node else self._forward

        def run(*held):
            at(workspace, np.uint8, WORKSPACE)[...] = 0xFF
            with np.errstate(all="ignore"):  # a GPU does not warn
                compute(**{name: self.node[name].numbers(pointer) for name, pointer in places.items()})

        handle.cudnn.runs.append((self, dict(places)))
        graph = graphs.capturing()
        if graph is None:
            run()
        else:
            graph.note_launch(run, (), [owner(pointer) for pointer in (*places.values(), workspace)])

    def _scores(self, q, k):
        scores = np.float32(self.scale) * (q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2))
        if self.is_causal:  # from the top left
            scores[..., ~np.tri(*scores.shape[-2:], dtype=bool)] = -np.inf
        return scores

    def _forward(self, q, k, v, y, stats):
        scores = self._scores(q, k)
        largest = scores.max(-1, keepdims=True)
        e = np.exp(scores - largest)
        total = e.sum(-1, keepdims=True)
        y[...] = (e @ v.astype(np.float32)) / total
        stats[...] = largest + np.log(total)

    def _backward(self, q, k, v, y, g, stats, d_q, d_k, d_v):
        q, k, v, y, g = (x.astype(np.float32) for x in (q, k, v, y, g))
        w = np.exp(self._scores(q, k) - stats)
        d_s = np.float32(self.scale) * w * (g @ v.swapaxes(-1, -2) - (g * y).sum(-1, keepdims=True))
        d_q[...] = d_s @ k
        d_k[...] = d_s.swapaxes(-1, -2) @ q
        d_v[...] = w.swapaxes(-1, -2) @ g


class Handle:
    def __init__(self, cudnn):
        self.cudnn = cudnn
        self.stream = 0


class Frontend(types.ModuleType):
    """The module, with all plans that were made and all that was run."""

    def __init__(self):
        super().__init__("cudnn")
        self.plans = []
        self.runs = []
        self.data_type = data_type
        self.heur_mode = heur_mode
        self.pygraph = pygraph
        self.cudnnGraphNotSupportedError = cudnnGraphNotSupportedError

    def create_handle(self):
        assert graphs.capturing() is None, "cuDNN asks for memory to begin with"
        return Handle(self)

    def set_stream(self, handle, stream):
        assert isinstance(handle, Handle)
        handle.stream = stream


@contextlib.contextmanager
def installed():
    """Within it `import cudnn` gives the stand-in."""
    frontend = Frontend()
    frontend.__spec__ = importlib.machinery.ModuleSpec("cudnn", None)
    before = sys.modules.get("cudnn")
    sys.modules["cudnn"] = frontend
    try:
        yield frontend
    finally:
        if before is None:
            del sys.modules["cudnn"]
        else:
            sys.modules["cudnn"] = before
