"""Variables of numba that cannot be used are found before anything is computed."""

import os
import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "setting",
    ["NUMBA_DISABLE_JIT=1", "NUMBA_CPU_FEATURES=garbage", "SOURCE_DATE_EPOCH=abc", "NUMBA_NUM_THREADS=0"],
)
@pytest.mark.needs("kernels/numba")
def test_variables_that_numba_takes_badly_are_found_before_anything_is_computed(setting):
    name, value = setting.split("=")
    use = "try:\n    mg.kernels.use('jit')\nexcept mg.DependencyError as error:\n    print(error)"
    program = f"import minigrad as mg\n{use}"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, name: value}, capture_output=True, text=True
    )
    assert not done.stderr
    assert re.fullmatch(rf"the kernels 'jit' .*\nCorrect or unset .*{name} \(now .*\n", done.stdout)
