"""Runs: the folder that a training writes, and what is read from it."""
