"""Reading text: sentences, words, and how well they fit a question."""
