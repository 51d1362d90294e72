"""Fills what documents lack of summary, kind, category and tags, where their collection wants it."""
