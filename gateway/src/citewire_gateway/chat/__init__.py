"""One chat: from a question to the events of its answer, and what is kept of it."""
