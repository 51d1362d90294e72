-- What was deleted is gone from what is derived of it too, and who keeps quotes of it hears of that.

-- Documents that were deleted, until whoever keeps quotes of them (the gateway) has erased those. It holds no content.
CREATE TABLE corpus.erased_documents (
    org_id      text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    document_id bigint NOT NULL,
    erased_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, document_id)
);
SELECT corpus.protect('erased_documents');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.erased_documents TO citewire_corpus;

-- In the transaction that deletes: by whatever way a document goes.
CREATE FUNCTION corpus.note_erased() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.erased_documents (org_id, document_id) VALUES (OLD.org_id, OLD.document_id)
    ON CONFLICT (org_id, document_id) DO UPDATE SET erased_at = now();
    RETURN NULL;
END
$$;
CREATE TRIGGER note_erased AFTER DELETE ON corpus.documents FOR EACH ROW EXECUTE FUNCTION corpus.note_erased();

-- A term that no chunk holds any more isn't counted as 0, but forgotten: its number tells that the word was there. A trigger
-- of its own, whichever version of the code and of the counting changes the count.
CREATE FUNCTION corpus.forget_term() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM corpus.term_counts t
    WHERE t.org_id = NEW.org_id AND t.term = NEW.term AND t.collection_id = NEW.collection_id AND t.chunks <= 0;
    RETURN NULL;
END
$$;
CREATE TRIGGER forget_term AFTER INSERT OR UPDATE OF chunks ON corpus.term_counts
    FOR EACH ROW WHEN (NEW.chunks <= 0) EXECUTE FUNCTION corpus.forget_term();
REVOKE ALL ON FUNCTION corpus.forget_term() FROM PUBLIC;

-- Those that are there already. The policies bind the owner as well, who isn't one of the tenants.
ALTER TABLE corpus.term_counts NO FORCE ROW LEVEL SECURITY;
DELETE FROM corpus.term_counts WHERE chunks <= 0;
ALTER TABLE corpus.term_counts FORCE ROW LEVEL SECURITY;
