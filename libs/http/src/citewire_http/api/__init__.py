"""Shared by the routes: parameters, pages, bodies, problems, and the OpenAPI document."""
