"""A schema that is spread over nodes by Citus: the operator's commands."""
