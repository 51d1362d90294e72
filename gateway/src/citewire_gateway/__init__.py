"""The gateway: HTTP in front of the three services. It orchestrates, translates, and owns conversations."""
