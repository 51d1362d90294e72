"""Ingest: the worker that turns uploads into chunks and vectors."""
