"""What chats are asked and say, and how clients of each kind write and read it. No input or output happens here."""
