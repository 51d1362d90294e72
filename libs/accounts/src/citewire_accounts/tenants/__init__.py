"""Callers: organisations, users, keys, their providers, and their spending."""
