"""Backfill: finds live versions that lack vectors, and embeds them when nothing else waits."""
