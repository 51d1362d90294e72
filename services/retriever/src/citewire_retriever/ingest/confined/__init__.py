"""Processes that read hostile files: forked for one file each, and locked in before they read a byte of it.

`server` is the process that forks them, `locks` what they are locked in by; `citewire_retriever.ingest.sandbox` is the
worker's side. Nothing here may import what starts a thread: a process with threads can't be forked safely.
"""

NOT_LOCKED = 70
"""Exit status of a process that couldn't lock itself in, and therefore read nothing."""

TABLES = "tables"
"""Argument of a fork server whose processes also query tables, for which an optional package is loaded."""
