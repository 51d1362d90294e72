"""Embedders with the models of a gateway, for Haystack."""

from haystack_integrations.components.embedders.citewire.embedders import (
    CitewireDocumentEmbedder,
    CitewireTextEmbedder,
)

__all__ = ["CitewireDocumentEmbedder", "CitewireTextEmbedder"]
