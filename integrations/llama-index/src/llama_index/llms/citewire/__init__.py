"""Answers from an organisation's documents, for LlamaIndex."""

from llama_index.llms.citewire.base import Citewire

__all__ = ["Citewire"]
