-- Ingest in fair shares: what an organisation's jobs cost, and which of its own come first.

-- interactive: somebody waits for it. bulk: the rest, and what has had a turn and isn't done. The previous version of the
-- code doesn't know lanes: what it queues is bulk, and it claims in the order of time.
ALTER TABLE corpus.ingest_jobs
    ADD COLUMN lane text NOT NULL DEFAULT 'bulk' CHECK (lane IN ('interactive', 'bulk')),
    -- Of the original; NULL in what the previous version queued.
    ADD COLUMN size_bytes bigint;
GRANT UPDATE (lane) ON corpus.ingest_jobs TO citewire_worker;

-- For the claim; it takes the place of an index in the order of time alone.
CREATE INDEX ingest_jobs_in_turn ON corpus.ingest_jobs (kind, org_id, lane DESC, next_run_at, job_id)
    WHERE state = 'queued';
DROP INDEX corpus.ingest_jobs_queued;
-- How many a user has queued lately: more than a few aren't waited for one by one.
CREATE INDEX ingest_jobs_recent ON corpus.ingest_jobs (org_id, user_id, created_at) WHERE lane = 'interactive';

-- The virtual time of each organisation, in seconds of work that were charged to it: the one with the least is served
-- next. The row '' is the present: the least of those that waited at the last claim, which who comes late starts at. As
-- ingest_jobs, it is read across tenants and holds no content.
CREATE TABLE corpus.ingest_shares (
    org_id       text COLLATE "C" PRIMARY KEY,
    virtual_time double precision NOT NULL CHECK (virtual_time >= 0)
);
SELECT corpus.protect('ingest_shares');
CREATE POLICY worker_reads_all ON corpus.ingest_shares FOR SELECT TO citewire_worker USING (true);
CREATE POLICY worker_adds_all ON corpus.ingest_shares FOR INSERT TO citewire_worker WITH CHECK (true);
CREATE POLICY worker_charges_all ON corpus.ingest_shares FOR UPDATE TO citewire_worker USING (true) WITH CHECK (true);
GRANT SELECT, INSERT ON corpus.ingest_shares TO citewire_worker;
GRANT UPDATE (virtual_time) ON corpus.ingest_shares TO citewire_worker;
