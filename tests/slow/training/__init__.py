"""Run folders and ranks: many commands and processes."""
