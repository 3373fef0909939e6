"""`nvmath.bindings.cublasLt` where there is no GPU: a product with a bias or its gradient, described as
cuBLASLt wants it, computed in the memory that the addresses name.
"""

import enum
import itertools
import types

import numpy as np

from . import graphs
from .cublas import COMPUTED, KINDS, at, owner, tf32

ALIGNMENTS = {f"MIN_ALIGNMENT_{x}_BYTES" for x in "ABCD"}


class MatmulDescAttribute(enum.IntEnum):
    TRANSA = 3
    TRANSB = 4
    EPILOGUE = 7
    BIAS_POINTER = 8


class Epilogue(enum.IntEnum):
    DEFAULT = 1
    BIAS = 4
    BGRADB = 512


class MatmulPreferenceAttribute(enum.IntEnum):
    MAX_WORKSPACE_BYTES = 1
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


WIDTHS = {"TRANSA": np.int32, "TRANSB": np.int32, "EPILOGUE": np.int32, "BIAS_POINTER": np.uint64,
          "MAX_WORKSPACE_BYTES": np.uint64} | dict.fromkeys(ALIGNMENTS, np.uint32)  # fmt: skip


class cuBLASLtError(Exception):
    pass


class Bindings(types.ModuleType):
    """The module. `knows` says whether it finds an algorithm; if not, `refuses` says whether and how it says
    so: with an "error", or by the "state" of what it gives.
    """

    MatmulDescAttribute = MatmulDescAttribute
    MatmulPreferenceAttribute = MatmulPreferenceAttribute
    Epilogue = Epilogue
    cuBLASLtError = cuBLASLtError

    def __init__(self):
        super().__init__("nvmath.bindings.cublasLt")
        self.numbers = itertools.count(1000)
        self.things = {}
        self.calls = []
        self.workspaces = {}  # by stream
        self.knows = True
        self.refuses = ""

    def _new(self, **things):
        number = next(self.numbers)
        self.things[number] = things
        return number

    def create(self):
        return self._new(handle=True)

    def matmul_desc_create(self, compute, scale):
        assert (compute, scale) in ((68, 0), (77, 0))
        return self._new(compute=compute)

    def matrix_layout_create(self, kind, rows, columns, leading):
        assert all(type(x) is int for x in (kind, rows, columns, leading))
        assert leading >= rows > 0 < columns
        return self._new(kind=kind, rows=rows, columns=columns, leading=leading)

    def matmul_desc_destroy(self, description):
        assert "compute" in self.things.pop(description)

    def matrix_layout_destroy(self, layout):
        assert "rows" in self.things.pop(layout)

    def matmul_preference_create(self):
        return self._new(preference=True)

    def matmul_preference_destroy(self, preference):
        del self.things[preference]

    def _attribute(self, thing, kind, attribute, pointer, size):
        name = kind(attribute).name
        assert np.dtype(WIDTHS[name]).itemsize == size
        self.things[thing][name] = int(at(pointer, WIDTHS[name], 1)[0])

    def matmul_desc_set_attribute(self, description, attribute, pointer, size):
        self._attribute(description, MatmulDescAttribute, attribute, pointer, size)

    def matmul_preference_set_attribute(self, preference, attribute, pointer, size):
        self._attribute(preference, MatmulPreferenceAttribute, attribute, pointer, size)

    def matmul_algo_get_heuristic(self, handle, description, a, b, c, d, preference, wanted, found, count):
        assert self.things[handle]["handle"]
        self._sizes(description, a, b, c, d)
        preference = self.things[preference]
        assert preference["MAX_WORKSPACE_BYTES"] > 0
        assert {preference[name] for name in ALIGNMENTS} == {16}
        if self.refuses == "error":
            raise cuBLASLtError("CUBLAS_STATUS_NOT_SUPPORTED (15)")
        at(count, np.int32, 1)[0] = self.knows or self.refuses == "state"
        state = 15 if self.refuses == "state" else 0
        at(found, np.uint64, 10)[:] = [*[7] * 8, 1024, state]  # the algorithm, what it needs, whether it is

    def _sizes(self, description, a, b, c, d):
        """m, n and k, if all fit together."""
        description, a, b, c, d = (self.things[x] for x in (description, a, b, c, d))
        shape = lambda x, turned: (x["columns"], x["rows"]) if turned else (x["rows"], x["columns"])
        m, k = shape(a, description["TRANSA"])
        again, n = shape(b, description["TRANSB"])
        assert k == again
        assert c is d
        assert (c["rows"], c["columns"]) == (m, n)
        assert a["kind"] == b["kind"] == c["kind"]
        assert description["EPILOGUE"] in (Epilogue.BIAS, Epilogue.BGRADB)
        return m, n, k

    def matmul(self, handle, description, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algorithm,
               workspace, size, stream):  # fmt: skip
        assert self.things[handle]["handle"]
        assert stream == graphs.Stream.current.ptr
        assert (at(algorithm, np.uint64, 8) == 7).all()
        assert owner(workspace).nbytes >= size >= 1024
        self.workspaces.setdefault(stream, set()).add(workspace)
        assert (at(alpha, np.float32, 1)[0], at(beta, np.float32, 1)[0], c) == (1, 0, d)
        m, n, _ = self._sizes(description, of_a, of_b, of_c, of_d)
        description, *layouts = (dict(self.things[x]) for x in (description, of_a, of_b, of_c))
        assert not any(address % 16 for address in (a, b, c, description["BIAS_POINTER"]))
        epilogue = Epilogue(description["EPILOGUE"])
        self.calls.append((m, n, description["compute"], epilogue.name))

        def run(*held):
            x, y, z = (matrix(p, layout) for p, layout in zip((a, b, d), layouts, strict=True))
            wide = COMPUTED[description["compute"]]
            is_sum = epilogue == Epilogue.BGRADB
            bias = at(description["BIAS_POINTER"], z.dtype, n if is_sum else m)
            x = x.astype(wide)
            y = y.astype(wide)
            if description["compute"] == 77:
                x, y = tf32(x), tf32(y)
            x = x.T if description["TRANSA"] else x
            y = y.T if description["TRANSB"] else y
            if is_sum:
                z[...] = x @ y
                bias[...] = y.sum(axis=0)
            else:
                z[...] = x @ y + bias[:, None].astype(wide)

        graph = graphs.capturing()
        if graph is None:
            run()
        else:
            addresses = (a, b, d, description["BIAS_POINTER"])
            graph.note_launch(run, (), [owner(address) for address in addresses])


def matrix(pointer, layout):
    """A matrix by columns, where it lies."""
    rows = layout["rows"]
    columns = layout["columns"]
    leading = layout["leading"]
    x = at(pointer, KINDS[layout["kind"]], leading * (columns - 1) + rows)
    return np.lib.stride_tricks.as_strided(x, (rows, columns), (x.itemsize, leading * x.itemsize))
