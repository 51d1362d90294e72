"""Organisations, users and API keys."""
