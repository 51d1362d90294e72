"""Routes for accounts, and the dependencies that identify the caller on all routes."""
