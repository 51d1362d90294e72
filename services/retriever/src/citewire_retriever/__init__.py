"""Citewire's retriever: documents and search on Postgres with pgvector, and the worker that ingests."""
