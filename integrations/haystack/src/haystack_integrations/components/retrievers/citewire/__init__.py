"""A retriever over an organisation's documents, for Haystack."""

from haystack_integrations.components.retrievers.citewire.retriever import CitewireRetriever

__all__ = ["CitewireRetriever"]
