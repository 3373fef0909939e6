"""The command `minitransformer`, also as `python -m minitransformer`.

Imports take a second. Ctrl-C during that time ends the process at once: nothing is written yet, and an
interrupted import would print a traceback.
"""

import os
import signal
import sys
import warnings

from . import startup


def main() -> int:
    """Import the verb's module, and run it; returns the exit code."""
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        os.environ.setdefault(name, "")  # a .numba_config.yaml in the current folder cannot name code to load
    startup.let_openblas_use_avx512()
    before = signal.signal(signal.SIGINT, _stop)
    startup.prepare_streams()
    warnings.showwarning = startup.show_warning
    try:
        import numpy as np  # noqa: F401 (first: if another extension imports it, its errors print a traceback)

        from . import cli

        if sys.argv[1:2] and sys.argv[1] in cli.VERBS:
            cli.load(sys.argv[1])
    except Exception as error:
        message = startup.describe_error(error)
        if message is None or "--debug" in sys.argv:
            raise
        print(f"error: {message}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, before)
    return cli.main()


def _stop(number: int, frame: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
