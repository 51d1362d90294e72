-- How many bytes of originals each user has stored, all versions that are kept: what a plan limits.

-- Entries of a user add up to what is stored. Who stores or deletes only adds one, so that a deletion waits for nobody and
-- thousands of documents in one statement cost no more than their number; an upload adds old entries up from time to time.
CREATE TABLE corpus.stored_bytes (
    org_id   text COLLATE "C" NOT NULL,
    user_id  text COLLATE "C" NOT NULL,                        -- the documents' owner
    entry_id bigint GENERATED ALWAYS AS IDENTITY,
    bytes    bigint NOT NULL,                                  -- less than 0: deleted, or given to another owner
    PRIMARY KEY (org_id, user_id, entry_id)
);
SELECT corpus.protect('stored_bytes');
GRANT SELECT, INSERT, DELETE ON corpus.stored_bytes TO citewire_corpus;

-- The triggers work as the owner: what counts doesn't depend on what the caller may see in the organisation.

-- Versions come and go one by one while their document is there.
CREATE FUNCTION corpus.count_version_bytes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO corpus.stored_bytes (org_id, user_id, bytes)
        SELECT d.org_id, d.owner, NEW.size_bytes
        FROM corpus.documents d
        WHERE d.org_id = NEW.org_id AND d.document_id = NEW.document_id AND NEW.size_bytes <> 0;
    ELSE
        -- No row: the document is being deleted too, and has counted all of its versions.
        INSERT INTO corpus.stored_bytes (org_id, user_id, bytes)
        SELECT d.org_id, d.owner, -OLD.size_bytes
        FROM corpus.documents d
        WHERE d.org_id = OLD.org_id AND d.document_id = OLD.document_id AND OLD.size_bytes <> 0;
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION corpus.count_version_bytes() FROM PUBLIC;
CREATE TRIGGER count_bytes AFTER INSERT OR DELETE ON corpus.versions
    FOR EACH ROW EXECUTE FUNCTION corpus.count_version_bytes();

-- All versions of a document that goes or gets another owner. They are locked: one that the sweeper is deleting counts once.
CREATE FUNCTION corpus.count_document_bytes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stored constant bigint := (
        SELECT coalesce(sum(v.size_bytes), 0)
        FROM (SELECT size_bytes FROM corpus.versions
              WHERE org_id = OLD.org_id AND document_id = OLD.document_id FOR UPDATE) v
    );
BEGIN
    IF stored <> 0 THEN
        INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES (OLD.org_id, OLD.owner, -stored);
        IF TG_OP = 'UPDATE' THEN
            INSERT INTO corpus.stored_bytes (org_id, user_id, bytes) VALUES (NEW.org_id, NEW.owner, stored);
        END IF;
    END IF;
    RETURN coalesce(NEW, OLD);
END
$$;
REVOKE ALL ON FUNCTION corpus.count_document_bytes() FROM PUBLIC;
CREATE TRIGGER count_bytes_deleted BEFORE DELETE ON corpus.documents
    FOR EACH ROW EXECUTE FUNCTION corpus.count_document_bytes();
CREATE TRIGGER count_bytes_moved AFTER UPDATE OF owner ON corpus.documents
    FOR EACH ROW WHEN (OLD.owner <> NEW.owner) EXECUTE FUNCTION corpus.count_document_bytes();

-- What is there already. The triggers' creation holds writers off until this is committed; the policies, which bind the
-- owner as well, are put back before that.
ALTER TABLE corpus.documents NO FORCE ROW LEVEL SECURITY;
ALTER TABLE corpus.versions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE corpus.stored_bytes NO FORCE ROW LEVEL SECURITY;
INSERT INTO corpus.stored_bytes (org_id, user_id, bytes)
SELECT d.org_id, d.owner, sum(v.size_bytes)
FROM corpus.documents d
JOIN corpus.versions v ON v.org_id = d.org_id AND v.document_id = d.document_id
GROUP BY d.org_id, d.owner;
ALTER TABLE corpus.documents FORCE ROW LEVEL SECURITY;
ALTER TABLE corpus.versions FORCE ROW LEVEL SECURITY;
ALTER TABLE corpus.stored_bytes FORCE ROW LEVEL SECURITY;
