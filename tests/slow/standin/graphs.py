"""Streams and captured graphs of the stand-in.

While a stream is captured nothing is computed: what a call would write is put back, what it would make holds
0xff in every byte (a float's NaN), and the call is noted. A launch of the graph makes the noted calls again,
with the arrays in the memory that they had and the numbers of then. So a number that the host forgets to
bring up to date shows up as a wrong result; so does memory that nobody kept, which is overwritten when it is
let go. What CuPy refuses in a capture is refused: waiting, products through cuBLAS, copies from the host.
"""

import ctypes
import functools
import types
import weakref
from typing import ClassVar

import numpy as np

WAITS = "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
CUBLAS = "calling cuBLAS API during stream capture is currently unsupported"


class CUDARuntimeError(RuntimeError):
    """CuPy's error of this name."""


class Held(types.SimpleNamespace):
    """An array of the stand-in among a noted call's arguments: its memory, not itself."""


def mapped(change, thing, kinds):
    if isinstance(thing, kinds):
        return change(thing)
    if isinstance(thing, dict):
        return {key: mapped(change, value, kinds) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        parts = [mapped(change, part, kinds) for part in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    return thing


def arrays_of(result):
    """NumPy's arrays in a call's result."""
    from . import ndarray

    found = []
    mapped(lambda x: found.append(x._array), result, ndarray)
    return found


def root(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def poison(array):
    """0xff in every byte of the memory that an array owns."""
    ctypes.memset(array.ctypes.data, 0xFF, array.nbytes)


class Graph:
    """What was noted between begin_capture and end_capture."""

    def __init__(self, pool):
        self.calls = []
        self.made = set()
        self.pool = weakref.ref(pool)
        self.watched = set()
        self.invalid = False
        self.noting = False

    def note(self, function, args, settings):
        """Note a call; gives what it would give, with 0xff where numbers would be."""
        from . import ndarray

        arrays = []
        hold = lambda x: (arrays.append(x), Held(array=x._array))[1]
        own = lambda x: x.copy()  # a struct passed by value
        held = mapped(own, mapped(hold, (args, settings), ndarray), np.ndarray)
        owners = {id(o): o for o in (root(x._array) for x in arrays)}
        before = {key: owner.copy() for key, owner in owners.items()}
        self.noting = True
        try:
            result = function(*args, **settings)
        finally:
            self.noting = False
        for key, owner in owners.items():
            if owner.flags.writeable:
                np.copyto(owner, before[key])
            self.watch(owner)
        fresh = [None if id(root(array)) in owners else array for array in arrays_of(result)]
        for array in fresh:
            if array is not None:
                self.made.add(id(root(array)))
                poison(root(array))
        self.calls.append((function, held, fresh))
        return result

    def watch(self, owner):
        """Spoil memory from before the capture when nobody refers to it any more."""
        from . import ndarray

        wrapper = ndarray._owners.get(id(owner))
        if wrapper is None or id(owner) in self.made or id(owner) in self.watched:
            return
        self.watched.add(id(owner))
        weakref.finalize(wrapper, poison, owner)

    def note_launch(self, run, arguments, owners):
        """Note run(arguments), the launch of a kernel that uses the memory of `owners`."""
        from . import ndarray

        for owner in owners:
            self.watch(owner)
        held = mapped(lambda x: Held(array=x._array), arguments, ndarray)
        held = mapped(lambda x: x.copy(), held, np.ndarray)
        self.calls.append((functools.partial(run, owners), ((held,), {}), ()))

    def launch(self, stream=None):
        from . import clad

        assert self.pool() is not None, "the memory that the graph was captured with is no longer reserved"
        assert Stream.current.graph is None
        for function, held, fresh in self.calls:
            args, settings = mapped(lambda x: clad(x.array), held, Held)
            found = arrays_of(function(*args, **settings))
            for array, now in zip(fresh, found, strict=False):
                if array is not None:
                    np.copyto(array, now)


class Stream:
    """A queue of work; `current` is the one that calls go to."""

    numbers = iter(range(1, 1 << 30))

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else next(Stream.numbers)
        self.non_blocking = non_blocking
        self.graph = None
        self.before = []

    def __enter__(self):
        self.before.append(Stream.current)
        Stream.current = self
        return self

    def __exit__(self, *exc):
        Stream.current = self.before.pop()

    def begin_capture(self, mode=None):
        if not self.ptr:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        assert self.non_blocking, "work on the default stream would end the capture"
        assert Memory.pool is not None, "memory of a graph is given to others, too"
        self.graph = Graph(Memory.pool)

    def end_capture(self):
        graph = self.graph
        self.graph = None
        if graph.invalid:
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error"
            )
        return graph

    def is_capturing(self):
        return self.graph is not None

    def synchronize(self):
        waits(self.graph)


Stream.null = Stream.current = Stream(null=True)


def capturing():
    """The graph that calls are noted in, or None."""
    return Stream.current.graph


IN_USE = object()


def waits(graph=IN_USE):
    """What waits for the GPU ends a capture."""
    graph = capturing() if graph is IN_USE else graph
    if graph is not None:
        graph.invalid = True
        raise CUDARuntimeError(WAITS)


def downloads():
    """CuPy refuses to copy from the GPU while a stream is captured; the capture goes on."""
    if capturing() is not None:
        raise RuntimeError("the current stream is capturing, so D2H transfers are disallowed")


def uploads():
    """A copy from the host goes through pinned memory."""
    Memory.pinned(8)


def through_cublas():
    if capturing() is not None:
        raise NotImplementedError(CUBLAS)


def primitive(function):
    """A function of CuPy's, which a stream that is captured notes."""

    @functools.wraps(function)
    def call(*args, **settings):
        graph = capturing()
        if graph is None or graph.noting:
            return function(*args, **settings)
        return graph.note(function, args, settings)

    return call


class MemoryPool:
    """Blocks of bytes; of which pool an array has its own is not known here, so all are the usual one's."""

    def malloc(self, size):
        """A block."""

    def used_bytes(self):
        from . import ndarray

        return sum(rounded(x._owner) for x in ndarray._owners.values()) if self is MemoryPool.usual else 0

    total_bytes = used_bytes


MemoryPool.usual = MemoryPool()


class MemoryHook:
    """Told of memory that is taken from a pool and given back, within a `with`."""

    name = "MemoryHook"
    now: ClassVar[dict] = {}

    def __enter__(self):
        if self.name in MemoryHook.now:
            raise KeyError(f"memory hook {self.name} already exists")
        MemoryHook.now[self.name] = self
        return self

    def __exit__(self, *exc):
        del MemoryHook.now[self.name]

    def malloc_postprocess(self, **kwargs):
        pass

    def free_postprocess(self, **kwargs):
        pass


def rounded(owner):
    return -(-owner.nbytes // 512) * 512


def taken(owner):
    for hook in MemoryHook.now.values():
        pointer = owner.ctypes.data
        size = owner.nbytes
        hook.malloc_postprocess(device_id=0, size=size, mem_size=rounded(owner), mem_ptr=pointer, pmem_id=1)


def given_back(owner):
    for hook in MemoryHook.now.values():
        hook.free_postprocess(device_id=0, mem_size=rounded(owner), mem_ptr=owner.ctypes.data, pmem_id=1)


class Memory:
    """Where arrays' memory comes from."""

    pool = None

    @staticmethod
    def pinned(size):
        """Memory of the host's that the GPU copies from."""
        return PinnedMemoryPool.usual.malloc(size)


class PinnedMemory:
    """Which is the host's again when a graph is launched."""

    def __init__(self, size):
        assert capturing() is None, "what is copied from the host in a capture is copied again in each replay"
        self.size = size


class PooledPinnedMemory(PinnedMemory):
    def __init__(self, size, pool):
        super().__init__(size)
        self.pool = weakref.ref(pool)


class PinnedMemoryPointer:
    def __init__(self, mem, offset):
        self.mem = mem


class PinnedMemoryPool:
    """As in CuPy its memory says whose it is."""

    def malloc(self, size):
        return PinnedMemoryPointer(PooledPinnedMemory(size, self), 0)


PinnedMemoryPool.usual = PinnedMemoryPool()


class using_allocator:
    def __init__(self, allocator):
        self.pool = allocator.__self__

    def __enter__(self):
        self.before = Memory.pool
        Memory.pool = self.pool

    def __exit__(self, *exc):
        Memory.pool = self.before


def set_pinned_memory_allocator(allocator=None):
    Memory.pinned = staticmethod(allocator or (lambda size: PinnedMemoryPointer(PinnedMemory(size), 0)))


def names():
    """What `cupy.cuda` has of these."""
    return {
        "Stream": Stream, "Graph": Graph, "using_allocator": using_allocator,
        "MemoryPool": MemoryPool, "MemoryHook": MemoryHook,
        "PinnedMemory": PinnedMemory, "PinnedMemoryPointer": PinnedMemoryPointer,
        "PinnedMemoryPool": PinnedMemoryPool,
        "alloc_pinned_memory": lambda size: Memory.pinned(size),
        "set_pinned_memory_allocator": set_pinned_memory_allocator,
        "get_current_stream": lambda device_id=-1: Stream.current,
    }  # fmt: skip
