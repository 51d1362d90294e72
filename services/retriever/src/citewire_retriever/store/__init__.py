"""Storage of documents: abstract bases in `base`, implemented with Postgres. SQL is used only here."""
