"""Seeded archives with needles and near-duplicates, fitted to an exact token count, and the cases that ask about them."""

from loadkit.documents.asking import Cache, cases
from loadkit.documents.preparation import archive_cases, prepare, rung_tokens

__all__ = ["Cache", "archive_cases", "cases", "prepare", "rung_tokens"]
