"""Data: where it comes from, how files are read, and batches."""
