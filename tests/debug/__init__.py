"""minigrad.debug: anomalies and comparisons."""
