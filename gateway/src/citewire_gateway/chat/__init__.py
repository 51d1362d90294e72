"""One chat: from a question to the events of its answer, and its stored records."""
