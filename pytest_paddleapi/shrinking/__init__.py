"""Smaller configs that fail in the same way: edits of a call, a greedy search over them, and the runs that it makes."""

from .search import Limits, Shrunk, shrink
from .signature import Signature, signature_of

__all__ = ["Limits", "Shrunk", "Signature", "shrink", "signature_of"]
