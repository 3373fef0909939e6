"""Training: the trainer, its settings, and the files that it writes."""
