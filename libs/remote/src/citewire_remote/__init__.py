"""Calls to remote model providers: what the embedder and the generator share."""
