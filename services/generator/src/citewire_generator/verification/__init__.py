"""Verifying citations: what each sentence of an answer cites, and whether the passages say so. No language model."""
