"""Chat providers behind one interface."""
