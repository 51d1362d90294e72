"""Citewire as a server for the Model Context Protocol."""
