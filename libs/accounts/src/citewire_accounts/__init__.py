"""Who calls, and what is kept about people and organisations: keys, sessions, roles, providers, budgets, the trail."""
