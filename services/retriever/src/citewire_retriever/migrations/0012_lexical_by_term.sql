-- migrate: no-transaction
-- Searches and ingest go on meanwhile. Entries are made at once, without a list of pending ones: a search would have to
-- look through that.
DROP INDEX CONCURRENTLY IF EXISTS corpus.lexical_by_term;
CREATE INDEX CONCURRENTLY lexical_by_term ON corpus.lexical USING gin (corpus.term_keys(org_id, terms))
    WITH (fastupdate = off);
