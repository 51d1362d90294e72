"""Requests and events of chats, and their format for each kind of client. No input or output happens here."""
