"""Connections to addresses that others name: which are allowed, bounded bodies, and files fetched from them."""
