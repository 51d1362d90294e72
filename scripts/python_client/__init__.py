"""Writes the generated part of the Python client from the OpenAPI document."""
