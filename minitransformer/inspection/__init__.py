"""Instruments for recipes and runs: what a training will cost, whether a run is sound, and what it learns."""
