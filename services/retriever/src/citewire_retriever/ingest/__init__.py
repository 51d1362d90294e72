"""Ingest: the worker that turns what was uploaded into chunks and vectors."""
