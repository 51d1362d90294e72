"""Judgements around an answer: whether to retrieve, how well it is supported, what to search for."""
