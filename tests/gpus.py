"""A GPU to test on, or a stand-in for one."""

import contextlib

import pytest

import minigrad as mg
from minigrad.core.devices import find_backend


def gpus():
    """A device to test on where there is no GPU, a stand-in for one, and the GPU where there is one."""
    return ["standin", pytest.param("cuda", marks=pytest.mark.gpu)]


@contextlib.contextmanager
def gpu_of_kind(kind):
    """Within it devices know a stand-in for a GPU ("standin"), or a real one ("cuda")."""
    if kind == "standin":
        from tests.slow import standin

        with standin.installed(), mg.kernels.use("cupy"):
            yield "standin"
        return
    try:
        if not find_backend("cuda").device_count():
            pytest.skip("CuPy finds no GPU on this machine")
    except mg.MinigradError as error:
        pytest.skip(str(error).partition("\n")[0])
    yield "cuda"
