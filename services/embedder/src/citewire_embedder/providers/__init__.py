"""Embedding models behind one interface: see `base.py`."""
