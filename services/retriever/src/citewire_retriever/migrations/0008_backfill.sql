-- Backfill: live versions that lack vectors in a space that they should have them in are found and embedded, in the
-- background. That heals what was imported or lost, and fills the space that an organisation is to be switched to.

ALTER TABLE corpus.ingest_jobs DROP CONSTRAINT ingest_jobs_kind_check;
-- backfill: embed what a live version lacks. Gone when done; kept for a while when given up.
ALTER TABLE corpus.ingest_jobs ADD CONSTRAINT ingest_jobs_kind_check
    CHECK (kind IN ('ingest', 'sweep', 'embed', 'backfill'));

-- The space that an organisation prepares. By name: a worker registers it once the embedder has shown that it serves it.
CREATE TABLE corpus.next_spaces (
    org_id     text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    model      text NOT NULL CHECK (length(model) BETWEEN 1 AND 200),
    revision   text NOT NULL CHECK (length(revision) BETWEEN 1 AND 100),
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4096),
    since      timestamptz NOT NULL DEFAULT now()
);
SELECT corpus.protect('next_spaces');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.next_spaces TO citewire_corpus;
GRANT SELECT ON corpus.next_spaces TO citewire_worker;

-- Switching. Its first space an organisation still gets by its first document.
GRANT UPDATE (live_space_id, previous_space_id, switched_at) ON corpus.org_spaces TO citewire_corpus;

-- When an organisation's documents are next looked through for missing vectors: one worker takes an organisation that is
-- due, for all of them. As ingest_jobs, it is read across tenants and holds no content.
CREATE TABLE corpus.backfill_checks (
    org_id  text COLLATE "C" PRIMARY KEY CHECK (org_id <> ''),
    next_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX backfill_checks_due ON corpus.backfill_checks (next_at);

-- Organisations that are there already. The policy binds the owner too, and shows it none of them.
ALTER TABLE corpus.org_spaces NO FORCE ROW LEVEL SECURITY;
INSERT INTO corpus.backfill_checks (org_id) SELECT org_id FROM corpus.org_spaces;
ALTER TABLE corpus.org_spaces FORCE ROW LEVEL SECURITY;

SELECT corpus.protect('backfill_checks');
CREATE POLICY worker_reads_all ON corpus.backfill_checks FOR SELECT TO citewire_worker USING (true);
CREATE POLICY worker_takes_all ON corpus.backfill_checks FOR UPDATE TO citewire_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON corpus.backfill_checks TO citewire_corpus, citewire_worker;
GRANT UPDATE (next_at) ON corpus.backfill_checks TO citewire_corpus, citewire_worker;

-- An organisation is looked through at once when it gets a space, is switched, or prepares one.
CREATE FUNCTION corpus.check_backfill() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO corpus.backfill_checks AS checks (org_id) VALUES (NEW.org_id)
    ON CONFLICT (org_id) DO UPDATE SET next_at = least(checks.next_at, now());
    PERFORM pg_notify('citewire_corpus_jobs', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER check_backfill AFTER INSERT OR UPDATE ON corpus.org_spaces
    FOR EACH ROW EXECUTE FUNCTION corpus.check_backfill();
CREATE TRIGGER check_backfill AFTER INSERT OR UPDATE ON corpus.next_spaces
    FOR EACH ROW EXECUTE FUNCTION corpus.check_backfill();
