"""The stand-in for CuPy finds what a captured step forgets to keep."""

import numpy as np
import pytest

from tests.slow import standin

# ---------------------------------------------------------------- the stand-in finds what is forgotten


def test_the_standin_replays_recorded_work():
    with standin.installed() as cupy:
        x = cupy.ones(3)
        y = cupy.zeros(3)
        host = [2.0]
        stream = cupy.cuda.Stream(non_blocking=True)
        pool = cupy.cuda.MemoryPool()
        with cupy.cuda.using_allocator(pool.malloc), stream:
            stream.begin_capture()
            z = x * host[0]
            y += z
            with pytest.raises(RuntimeError, match="D2H transfers"):
                float(z[0])
            with pytest.raises(RuntimeError, match="StreamCapture"):
                cupy.cuda.Device().synchronize()
            with pytest.raises(RuntimeError, match="Invalidated"):
                stream.end_capture()
            stream.begin_capture()
            z = x * host[0]
            y += z
            graph = stream.end_capture()
        assert y.tolist() == [0, 0, 0]  # nothing was computed yet
        assert np.isnan(z.get()).all()
        graph.launch()
        host[0] = 5.0  # a replay does not see this
        x.fill(10)
        graph.launch()
        assert (y.tolist(), z.tolist()) == ([22, 22, 22], [20, 20, 20])
        del x  # nobody kept it for the graph
        graph.launch()
        assert np.isnan(y.get()).all()
        del pool
        with pytest.raises(AssertionError, match="reserved"):
            graph.launch()
