"""Citewire for LangChain: a retriever, a chat model with verified citations, embeddings, and a vector store."""

from langchain_citewire.chat_models import ChatCitewire
from langchain_citewire.embeddings import CitewireEmbeddings
from langchain_citewire.retrievers import CitewireRetriever
from langchain_citewire.vectorstores import CitewireVectorStore

__all__ = ["ChatCitewire", "CitewireEmbeddings", "CitewireRetriever", "CitewireVectorStore"]
