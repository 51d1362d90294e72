"""Copying the schema from one database into another while it is written to, and switching to that one."""
