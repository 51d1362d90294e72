"""Stores documents with their metadata, for Haystack."""

from haystack_integrations.components.writers.citewire.writer import CitewireWriter

__all__ = ["CitewireWriter"]
