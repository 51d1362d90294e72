"""Embeddings by the models that a gateway has, for LlamaIndex."""

from llama_index.embeddings.citewire.base import CitewireEmbedding

__all__ = ["CitewireEmbedding"]
