"""The `citewire` command: a client of the HTTP API, and the local stack."""
