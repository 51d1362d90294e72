"""One module per sub-command; each has `register(app)`."""
