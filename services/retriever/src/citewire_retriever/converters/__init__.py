"""Proto ↔ domain, and the validation of everything that comes in: once, here."""
