"""`cupy.RawModule` where there is no GPU: the kernels' sources, compiled as C++ and run on this processor.

It is stricter than a GPU is. An argument that is not of its parameter's type, which CuPy would pass all the
same, is an error. Arrays are copied for the call into memory between guards: what is read beyond an array's
end spoils the result, and what is written there is an error. The threads' order is another one in each call
(`emulator.h`).
"""

import ctypes
import functools
import hashlib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# before and after each array; as floats of 16 and 32 bits NaNs, which change when they are computed with
GUARD = np.tile(np.array([0xA5, 0xFF], np.uint8), 1 << 14)
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(')
calls = itertools.count(1)


def compiler():
    """A C++ compiler that can build the emulator, or None: on Linux g++ or clang++."""
    return sys.platform == "linux" and (shutil.which("g++") or shutil.which("clang++"))


@functools.cache
def folder():
    return tempfile.TemporaryDirectory(prefix="kernels-")


@functools.cache
def library(code, options):
    """The sources, compiled, with a way in for every kernel."""
    ways_in = "".join(
        f'extern "C" const char* signature_{name}() {{ return emulator::signature({name}); }}\n'
        f'extern "C" const char* launch_{name}('
        f"void** given, const unsigned* grid, const unsigned* size, uint64_t seed) {{\n"
        f"    auto kernel = [](void** all) {{ emulator::call({name}, all); }};\n"
        f"    return emulator::launch(kernel, given, grid, size, seed);\n}}\n"
        for name in KERNEL.findall(code)
    )
    name = hashlib.sha256(repr((code, options)).encode()).hexdigest()[:16]
    source, built = (Path(folder().name) / f"{name}{end}" for end in (".cpp", ".so"))
    source.write_text(f'#include "emulator.h"\n{code}\n{ways_in}', encoding="utf-8")
    command = [
        compiler(),
        "-shared",
        "-std=c++17",
        "-fPIC",
        "-O1",
        "-w",
        "-ffp-contract=off",
        "-U_FORTIFY_SOURCE",  # whose longjmp takes another stack for a mistake
        f"-I{HERE}",
        *options,
    ]
    done = subprocess.run([*command, str(source), "-o", str(built)], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return ctypes.CDLL(str(built))


class RawModule:
    """Sources in CUDA C."""

    def __init__(self, code, *, options=(), backend="nvrtc"):
        self.code = code
        self.options = options

    def get_function(self, name):
        return functools.partial(launch, library(self.code, tuple(self.options)), name)


def launch(compiled, name, grid, block, arguments):
    """What a kernel's `__call__` does."""
    from . import graphs

    run = functools.partial(_launch, compiled, name, grid, block)
    graph = graphs.capturing()
    if graph is None:
        run(None, arguments)
    else:
        graph.note_launch(run, tuple(arguments), run(None, arguments, dry=True))


def _launch(compiled, name, grid, block, owners, arguments, dry=False):
    """Run a kernel on the memory of `owners`, between guards; `dry` only looks at what it is given."""
    signature = getattr(compiled, f"signature_{name}")
    signature.restype = ctypes.c_char_p
    parameters = signature().decode().split()
    if len(arguments) != len(parameters):
        raise TypeError(
            f"{name} has {len(parameters)} parameters {parameters}, got {len(arguments)} arguments"
        )
    memory = Memory(owners)
    values = [
        memory.value(argument, parameter, f"{name}, argument {place}")
        for place, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True))
    ]
    given = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    sizes = [np.array([*shape, 1, 1][:3], np.uint32) for shape in (grid, block)]
    assert all(size.all() for size in sizes), f"{name}: nothing to launch in {grid} of {block}"
    assert np.prod(sizes[1]) <= 1024
    assert (sizes[0][1:] < 65536).all()
    if dry:
        return [owner for owner, _ in memory.copies.values()]
    run = getattr(compiled, f"launch_{name}")
    run.restype = ctypes.c_char_p
    seed = ctypes.c_uint64(next(calls) * 0x9E3779B97F4A7C15 % 2**64)
    wrong = run(given, *(ctypes.c_void_p(size.ctypes.data) for size in sizes), seed)
    if wrong:
        raise RuntimeError(f"{name}: {wrong.decode()}")
    memory.back(name)
    return None


class Memory:
    """The arrays of one call, each copied between guards."""

    def __init__(self, owners=None):
        from . import ndarray

        alive = [x._owner for x in list(ndarray._owners.values())] if owners is None else owners
        self.owners = [(array.ctypes.data, array) for array in alive]  # where each array's memory begins
        self.copies = {}  # where an array's memory begins -> (the array that owns it, its copy with guards)

    def value(self, argument, parameter, where):
        """An argument as the bytes that the kernel gets."""
        from . import ndarray

        if parameter.startswith("*"):
            if argument is None:
                return np.zeros(1, np.uint64)
            assert isinstance(argument, ndarray), f"{where} is a pointer, got {argument!r}"
            assert argument.flags.c_contiguous, f"{where} does not lie in order"
            held = argument.dtype
            wanted = parameter[1:]
            of_struct = wanted[0] == "V" and wanted != "V2"  # of two bytes: float16 or bfloat16
            fits = of_struct or wanted in (f"{held.kind}{held.itemsize}", f"V{held.itemsize}")
            assert fits, f"{where} points to {wanted}, got an array of {held}"
            return np.array([self.place(argument.data.ptr)], np.uint64)
        if isinstance(argument, np.ndarray):  # a struct
            assert argument.size == 1, f"{where} is one struct, got {argument!r}"
            assert parameter == f"V{argument.nbytes}", f"{where} is {parameter}, got {argument!r}"
            value = argument.copy()
            for field in POINTERS & set(value.dtype.names):
                for pointer in np.nditer(value[field], op_flags=["readwrite"]):
                    if pointer:
                        pointer[...] = self.place(int(pointer))
            return value
        value = np.asarray(argument)
        if type(argument) is int:
            value = np.asarray(argument, np.int64)
        assert value.ndim == 0, f"{where} is {parameter}, got {argument!r}"
        given = f"{value.dtype.kind}{value.itemsize}"
        assert given == parameter, f"{where} is {parameter}, got {argument!r} of {value.dtype}"
        return value.reshape(1)

    def place(self, pointer):
        """Where an address of an array's memory is in the array's copy."""
        for start, array in self.owners:
            if start <= pointer < start + array.nbytes:
                if start not in self.copies:
                    copy = np.concatenate([GUARD, bytes_of(array), GUARD])
                    self.copies[start] = array, copy
                return self.copies[start][1].ctypes.data + len(GUARD) + pointer - start
        raise ValueError(f"no array lives at {pointer}")

    def back(self, name):
        """What the kernel wrote, into the arrays."""
        for owner, copy in self.copies.values():
            before, inside, after = np.split(copy, [len(GUARD), -len(GUARD)])
            if (before != GUARD).any() or (after != GUARD).any():
                raise IndexError(f"{name} wrote beyond the {owner.nbytes} bytes of an array")
            if owner.flags.writeable:
                bytes_of(owner)[...] = inside


POINTERS = {"data", "now", "source", "target"}  # fields of structs


def bytes_of(array):
    """The memory that an array owns."""
    flat = array.T if array.flags.f_contiguous else array
    assert flat.flags.c_contiguous
    return flat.reshape(-1).view(np.uint8)
