"""Embeddings with the models of a gateway, for LlamaIndex."""

from llama_index.embeddings.citewire.base import CitewireEmbedding

__all__ = ["CitewireEmbedding"]
