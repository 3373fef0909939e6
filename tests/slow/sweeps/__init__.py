"""Exhaustive sweeps over ops, dtypes and magnitudes."""
