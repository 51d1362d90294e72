"""Authentication, and data about people and organisations: keys, sessions, roles, providers, budgets, the trail."""
