"""Chat providers behind one interface: what writes the text of an answer."""
