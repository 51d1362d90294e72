"""Embedders by the models that a gateway has, for Haystack."""

from haystack_integrations.components.embedders.citewire.embedders import (
    CitewireDocumentEmbedder,
    CitewireTextEmbedder,
)

__all__ = ["CitewireDocumentEmbedder", "CitewireTextEmbedder"]
