"""The walk-through page: one sentence through a trained model, and every gradient back."""

from .record import Gradients, Record, Switches, record

__all__ = ["Gradients", "Record", "Switches", "record"]
