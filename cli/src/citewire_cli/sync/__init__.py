"""Keeps a collection in step with a folder: `citewire sync`."""
