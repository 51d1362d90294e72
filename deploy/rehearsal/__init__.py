"""Runs the images as several pods each, under load, while they are killed, drained, paused, cut off and rolled."""
