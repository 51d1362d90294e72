"""Replies from an organisation's documents, for Haystack."""

from haystack_integrations.components.generators.citewire.chat_generator import CitewireChatGenerator

__all__ = ["CitewireChatGenerator"]
