"""Demos and benchmarks, run."""
