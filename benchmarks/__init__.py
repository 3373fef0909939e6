"""Side-by-side measurements: `python -m benchmarks overhead|memory`."""
