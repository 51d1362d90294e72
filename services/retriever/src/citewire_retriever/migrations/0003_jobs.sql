-- Work for the ingest worker. The one table that citewire_worker reads across tenants: it says who and which version,
-- and holds no content. Everything after the claim happens under the tenant.

CREATE SEQUENCE corpus.job_ids AS bigint MAXVALUE 9007199254740991;

CREATE TABLE corpus.ingest_jobs (
    org_id        text COLLATE "C" NOT NULL,
    job_id        bigint NOT NULL DEFAULT nextval('corpus.job_ids'),
    document_id   bigint NOT NULL,
    version       integer NOT NULL,
    -- ingest: parse, chunk, embed, publish. sweep: forget a superseded version when next_run_at has come.
    kind          text NOT NULL DEFAULT 'ingest' CHECK (kind IN ('ingest', 'sweep')),
    -- queued -> running -> done | failed (for good). A failed attempt that may be tried again is queued anew.
    state         text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed')),
    attempts      integer NOT NULL DEFAULT 0,
    next_run_at   timestamptz NOT NULL DEFAULT now(),          -- not before
    worker        text,                                        -- who holds the lease
    lease_until   timestamptz,                                 -- a running job whose lease has passed may be claimed
    fence         bigint NOT NULL DEFAULT 0,                   -- grows with each claim; publishing checks it
    user_id       text NOT NULL,                               -- on whose behalf, for the embedder's tenant context
    plan          text NOT NULL DEFAULT 'free',
    trace_context jsonb NOT NULL DEFAULT '{}',                 -- traceparent, tracestate, request id of the upload
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, job_id),
    UNIQUE (org_id, document_id, version, kind),
    FOREIGN KEY (org_id, document_id, version) REFERENCES corpus.versions (org_id, document_id, version)
        ON DELETE CASCADE,
    CHECK ((state = 'running') = (lease_until IS NOT NULL))
);
-- For the claim, which looks over all tenants: it steps from one with queued jobs to the next, and takes its oldest.
CREATE INDEX ingest_jobs_queued ON corpus.ingest_jobs (kind, org_id, next_run_at, job_id) WHERE state = 'queued';
CREATE INDEX ingest_jobs_running ON corpus.ingest_jobs (lease_until) WHERE state = 'running';

SELECT corpus.protect('ingest_jobs');
CREATE POLICY worker_reads_all ON corpus.ingest_jobs FOR SELECT TO citewire_worker USING (true);
-- Claiming, extending a lease and ending a job; whose job it is can't be changed (no privilege on those columns).
CREATE POLICY worker_claims_all ON corpus.ingest_jobs FOR UPDATE TO citewire_worker USING (true) WITH CHECK (true);

GRANT USAGE ON SEQUENCE corpus.job_ids TO citewire_corpus, citewire_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.ingest_jobs TO citewire_corpus;
GRANT SELECT, INSERT, DELETE ON corpus.ingest_jobs TO citewire_worker;
GRANT UPDATE (state, attempts, next_run_at, worker, lease_until, fence, updated_at) ON corpus.ingest_jobs
    TO citewire_worker;

-- Wakes idle workers; which job it is, they ask.
CREATE FUNCTION corpus.notify_jobs() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('citewire_corpus_jobs', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER wake AFTER INSERT OR UPDATE ON corpus.ingest_jobs
    FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION corpus.notify_jobs();
