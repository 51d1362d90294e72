"""Profiles: how the pipeline behaves, as data."""
