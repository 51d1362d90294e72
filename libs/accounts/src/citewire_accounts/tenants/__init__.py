"""Who calls: organisations, users, keys, their providers, and what they spend."""
