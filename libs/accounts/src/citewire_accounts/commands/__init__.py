"""The operator's commands, on the database."""
