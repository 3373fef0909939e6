"""Commands that are shown, run."""
