"""Streams that outlive their reader: stored while they come, resumed and stopped on any process."""
