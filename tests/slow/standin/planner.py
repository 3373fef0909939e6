"""cuDNN itself plans our graphs for an H200 that is not there: chooses kernels, compiles them, and says how
much memory they need. Run as `python -m standin.planner`; exit code 77 where that cannot be done.

cuDNN can plan for a GPU whose properties it is told. Then it loads its kernels through the driver; where none
is installed, one stands in for it that takes everything and does nothing.
"""

import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ml_dtypes import bfloat16

from minigrad.kernels.cuda.fused import cudnn as ours

from .emulator import compiler

H200 = {
    "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "isTccDriver": 0,
    "pciDeviceId": 0x2335, "supportCoopLaunch": 1, "multiProcessorCount": 132, "warpSize": 32,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "maxSharedMemoryPerSM": 233472,
    "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0, "l2CacheSize": 62914560,
    "totalGlobalMem": 150_000_000_000, "memoryBusWidth": 6144, "memClockRateKHz": 3201000,
    "smClockRateKHz": 1980000,
}  # fmt: skip
GIVES = "cuLibraryLoadData cuLibraryGetKernel cuKernelGetFunction cuModuleLoadData cuModuleGetFunction"
DOES = """
cuCtxGetCurrent cuCtxGetLimit cuCtxPopCurrent cuCtxPushCurrent cuDeviceGet cuDeviceGetCount cuDriverGetVersion
cuGetErrorName cuGetErrorString cuKernelGetAttribute cuKernelSetAttribute cuLaunchCooperativeKernel
cuLaunchKernel cuLaunchKernelEx cuLibraryLoadFromFile cuLibraryUnload cuLinkAddData cuLinkComplete
cuLinkCreate cuLinkDestroy cuModuleUnload cuOccupancyMaxPotentialClusterSize cuStreamGetCtx
cuTensorMapEncodeIm2col cuTensorMapEncodeTiled
"""


def driver(folder):
    """The driver, or one that does nothing."""
    try:
        return ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
    except OSError:
        functions = [f"int {name}(void** made) {{ *made = (void*)16; return 0; }}" for name in GIVES.split()]
        functions += [f"int {name}() {{ return 0; }}" for name in DOES.split()]
        source = folder / "driver.cpp"
        built = folder / "libcuda.so.1"
        source.write_text('extern "C" {\n' + "\n".join(functions) + "\n}\n", encoding="utf-8")
        soname = "-Wl,-soname,libcuda.so.1"
        subprocess.run([compiler(), "-shared", "-fPIC", soname, "-o", built, source], check=True)
        return ctypes.CDLL(str(built), ctypes.RTLD_GLOBAL)


def layouts(dtype, queries, keys, width, value_width, backward, crossed=False, heads=3):
    """How arrays lie in projections, batches of two."""

    def split(length, parts, width):
        x = np.empty((2, length, parts, heads, width), dtype).transpose(2, 0, 3, 1, 4)
        return [(part.shape, ours._strides(part)) for part in x]

    if crossed:
        q, kv = split(queries, 1, width), split(keys, 2, width)
    elif width == value_width and queries == keys:
        q, kv = (parts := split(queries, 3, width))[:1], parts[1:]
    else:
        q = split(queries, 1, width)
        kv = [*split(keys, 1, width), *split(keys, 1, value_width)]
    (y,) = split(queries, 1, value_width)
    return (*q, *kv, y, y, *q, *kv) if backward else (*q, *kv, y)


def main():
    with tempfile.TemporaryDirectory() as folder:
        held = driver(Path(folder))
        import cudnn

        try:
            properties = cudnn.create_device_properties(json.dumps(H200))
        except (AttributeError, RuntimeError) as error:
            print(f"this cuDNN does not plan for a GPU that is not there: {error}")
            return 77

        def plan(dtype, is_causal, *sizes, **how):
            where = {"device_property": properties, "sm_version": 90, "sm_count": 132}
            found = ours.build_plan(
                cudnn, np.dtype(dtype), layouts(dtype, *sizes, **how), is_causal, 0.2, **where
            )
            assert getattr(found.graph, "selected_engine", None) is None, "not cuDNN's own"
            return found.workspace

        for backward in (False, True):
            for is_causal in (False, True):
                plan(bfloat16, is_causal, 128, 128, 64, 64, backward=backward)
                plan(np.float16, is_causal, 256, 128, 128, 128, backward=backward, crossed=True)
                plan(bfloat16, is_causal, 128, 384, 8, 8, backward=backward, crossed=True)
                plan(bfloat16, is_causal, 128, 256, 40, 24, backward=backward)
        small, large = (plan(bfloat16, True, n, n, 64, 64, backward=True) for n in (1024, 4096))
        assert small < large < 5 * small, "memory grows with the length, not with its square"
        try:
            plan(bfloat16, True, 128, 128, 12, 12, backward=True)
        except cudnn.cudnnGraphNotSupportedError:
            del held
        else:
            raise AssertionError("cuDNN takes heads of 12")
    return 0


if __name__ == "__main__":
    sys.exit(main())
