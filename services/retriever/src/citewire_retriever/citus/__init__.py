"""A schema distributed by Citus: the operator's commands."""
