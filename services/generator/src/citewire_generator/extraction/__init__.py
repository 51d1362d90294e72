"""Finds the units of passages that answer a question, and decides whether any does."""
