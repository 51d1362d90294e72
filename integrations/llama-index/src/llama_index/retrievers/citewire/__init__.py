"""A retriever over an organisation's documents, for LlamaIndex."""

from llama_index.retrievers.citewire.base import CitewireRetriever

__all__ = ["CitewireRetriever"]
