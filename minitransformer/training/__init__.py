"""Training: the trainer, its settings, and what it writes."""

from ..old_paths import keep

keep(__name__)
