"""Data: data sets, reading of files, and batches."""
