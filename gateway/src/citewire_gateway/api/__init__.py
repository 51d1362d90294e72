"""The HTTP API: routes, schemas and wire formats."""
