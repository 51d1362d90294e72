"""Routes about callers, and what all routes need to know who calls."""
