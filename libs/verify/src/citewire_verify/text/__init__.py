"""Reading text: sentences, terms, languages, small talk, code."""
