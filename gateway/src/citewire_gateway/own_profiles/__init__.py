"""Profiles that a tenant makes: one of ours with some fields changed, kept by name and version."""
