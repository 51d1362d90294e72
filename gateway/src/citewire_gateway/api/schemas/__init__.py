"""The bodies and events of the API, written once: what is read, sent, stored and described in its OpenAPI document."""
