"""The walk-through page, which shows a sentence's way through a trained model, and all gradients.

explain("runs/phrasebook", "I love you").save("page.html")  # a notebook displays the page itself
"""

from .documents import explain_documents
from .page import Explanation
from .record import Gradients, Record, Switches, record
from .runs import explain

__all__ = ["Explanation", "Gradients", "Record", "Switches", "explain", "explain_documents", "record"]
