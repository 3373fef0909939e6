"""Training: the trainer, its settings, and the files that it writes."""

from ..old_paths import add_old_paths

add_old_paths(__name__)
