"""Runs: the folders that trainings write, and what is read from them."""
