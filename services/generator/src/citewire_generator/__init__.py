"""Citewire's generator: grounded answers from passages, streamed."""
