-- The ingest worker's queries. Locks are taken in one order everywhere, that of the foreign keys: document, version,
-- job. A deletion cascades in that order too, so neither waits for the other in a circle.

-- name: claim
-- Claims one job for one worker. `waiting` steps from organisation to organisation along the index, however many jobs each has
-- queued. Next in turn is the organisation with the fewest running jobs, and among those the one with the least virtual time.
-- (Enrichments are counted separately: they wait for a model, and no upload waits for them.) An organisation that joins late
-- starts at the present virtual time. The claim is charged in advance, so that simultaneous claims take turns too.
-- With `most_bytes`, the claim is for the reserved slot: it takes only small files of organisations that have nothing running
-- while others have, because an organisation on its own doesn't need the slot between two of its jobs.
-- `full` lists organisations that have all of a worker's slots but one, which stays free for others.
WITH RECURSIVE waiting (org_id) AS (
    (SELECT org_id FROM corpus.ingest_jobs
     WHERE state = 'queued' AND kind = %(kind)s ORDER BY org_id LIMIT 1)
    UNION ALL
    SELECT (SELECT next.org_id FROM corpus.ingest_jobs next
            WHERE next.state = 'queued' AND next.kind = %(kind)s AND next.org_id > waiting.org_id
            ORDER BY next.org_id LIMIT 1)
    FROM waiting WHERE waiting.org_id IS NOT NULL
),
running AS (
    SELECT org_id, count(*) AS jobs FROM corpus.ingest_jobs
    WHERE state = 'running' AND (kind = 'enrich') = (%(kind)s = 'enrich') GROUP BY org_id
),
turns AS (
    SELECT waiting.org_id, coalesce(running.jobs, 0) AS running,
           greatest(coalesce(share.virtual_time, 0), coalesce(present.virtual_time, 0)) AS starts_at
    FROM waiting
    LEFT JOIN running USING (org_id)
    LEFT JOIN corpus.ingest_shares share ON share.org_id = waiting.org_id
    LEFT JOIN corpus.ingest_shares present ON present.org_id = ''
    WHERE waiting.org_id IS NOT NULL AND waiting.org_id <> ALL (%(full)s::text[])
    ORDER BY coalesce(running.jobs, 0), starts_at, waiting.org_id
),
next_job AS (
    SELECT job.org_id, job.job_id, turns.starts_at
    FROM turns
    CROSS JOIN LATERAL (
        SELECT queued.org_id, queued.job_id
        FROM corpus.ingest_jobs queued
        WHERE queued.state = 'queued' AND queued.kind = %(kind)s AND queued.org_id = turns.org_id
          AND queued.next_run_at <= now()
          AND (%(most_bytes)s::bigint IS NULL
               OR coalesce(queued.size_bytes, 0) <= %(most_bytes)s AND turns.running = 0 AND EXISTS (SELECT FROM running))
        ORDER BY queued.lane DESC, queued.next_run_at, queued.job_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS job
    LIMIT 1
),
charged AS (
    INSERT INTO corpus.ingest_shares AS share (org_id, virtual_time)
    SELECT whose.org_id, whose.virtual_time
    FROM next_job
    CROSS JOIN LATERAL (
        SELECT '' AS org_id, (SELECT min(starts_at) FROM turns) AS virtual_time WHERE %(kind)s = 'ingest'
        UNION ALL
        SELECT next_job.org_id, next_job.starts_at + %(advance)s
    ) AS whose
    ORDER BY whose.org_id  -- everyone locks the row of the present time first
    ON CONFLICT (org_id) DO UPDATE SET virtual_time = greatest(share.virtual_time, excluded.virtual_time)
)
UPDATE corpus.ingest_jobs job
SET state = 'running', attempts = job.attempts + 1, fence = job.fence + 1, worker = %(worker)s,
    lease_until = now() + make_interval(secs => %(lease_seconds)s), updated_at = now()
FROM next_job
WHERE job.org_id = next_job.org_id AND job.job_id = next_job.job_id
RETURNING job.org_id, job.job_id, job.document_id, job.version, job.attempts, job.fence, job.user_id, job.plan,
          job.trace_context, extract(epoch FROM now() - job.created_at)::float8, job.lane,
          extract(epoch FROM now() - job.next_run_at)::float8

-- name: charge
-- Charges what a job took beyond the advance of its claim.
UPDATE corpus.ingest_shares share SET virtual_time = share.virtual_time + spent.seconds
FROM unnest(%(org_ids)s::text[], %(seconds)s::float8[]) AS spent (org_id, seconds)
WHERE share.org_id = spent.org_id

-- name: is_waited_for
-- Whether another organisation's job waits for this one's slot, or an interactive job of the same organisation.
SELECT EXISTS (
    SELECT FROM corpus.ingest_jobs
    WHERE state = 'queued' AND kind = 'ingest' AND next_run_at <= now()
      AND (org_id <> %(org_id)s OR lane = 'interactive')
)

-- name: pass_on
-- Gives the job's slot to another; the job continues on its organisation's next turn, after those that wait in its lane.
UPDATE corpus.ingest_jobs
SET state = 'queued', lane = 'bulk', worker = NULL, lease_until = NULL, updated_at = now(), attempts = attempts - 1,
    next_run_at = now()
WHERE org_id = %(org_id)s AND job_id = %(job_id)s

-- name: requeue_expired
-- Requeues jobs whose workers died or are cut off. The state and the fence reject whatever those still write.
UPDATE corpus.ingest_jobs job
SET state = 'queued', worker = NULL, lease_until = NULL, updated_at = now()
FROM (SELECT org_id, job_id FROM corpus.ingest_jobs
      WHERE state = 'running' AND lease_until < now() FOR UPDATE SKIP LOCKED) AS expired
WHERE job.org_id = expired.org_id AND job.job_id = expired.job_id

-- name: release_all
-- Releases what a worker still holds when it ends: a claim for whose result it didn't wait.
UPDATE corpus.ingest_jobs
SET state = 'queued', attempts = attempts - 1, worker = NULL, lease_until = NULL, updated_at = now()
WHERE state = 'running' AND worker = %(worker)s

-- name: renew
UPDATE corpus.ingest_jobs SET lease_until = now() + make_interval(secs => %(lease_seconds)s), updated_at = now()
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'

-- name: hold_job
-- No row means that the job isn't this worker's any more. Otherwise nobody takes it before this transaction ends.
SELECT 1 FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'
FOR NO KEY UPDATE

-- name: begin_version
UPDATE corpus.versions
SET status = 'processing', stage = 'parse', done = 0, total = 0, attempt = %(attempt)s,
    started_at = least(started_at, now()), finished_at = NULL, error_code = NULL, error_message = NULL
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: version_to_ingest
SELECT v.file_name, v.media_type, v.size_bytes, v.sha256, d.title, d.title_given, s.model, s.revision, s.dimensions
FROM corpus.versions v
JOIN corpus.documents d ON d.org_id = v.org_id AND d.document_id = v.document_id
LEFT JOIN corpus.org_spaces o ON o.org_id = v.org_id
LEFT JOIN corpus.spaces s ON s.space_id = o.live_space_id
WHERE v.org_id = %(org_id)s AND v.document_id = %(document_id)s AND v.version = %(version)s

-- name: has_embedding_providers
-- Asks the catalogue, which answers even if the gateway's schema is missing or not accessible.
SELECT count(*) = 2
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'chat' AND c.relname IN ('embedding_providers', 'embedding_rules')

-- name: own_embedding
-- The uploader's embedding provider, or else the organisation's; one row even if there is neither.
SELECT coalesce((SELECT require_own FROM chat.embedding_rules WHERE org_id = %(org_id)s), false),
       p.provider, p.model, p.dimensions, p.user_id, p.sealed_api_base, p.sealed_key
FROM (SELECT) one
LEFT JOIN chat.embedding_providers p ON p.org_id = %(org_id)s AND p.user_id IN ('', %(user_id)s)
ORDER BY p.user_id DESC NULLS LAST
LIMIT 1

-- name: read_parts
SELECT bytes FROM corpus.originals
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
  AND part >= %(first)s AND part < %(end)s
ORDER BY part

-- name: progress
UPDATE corpus.versions SET stage = %(stage)s, done = %(done)s, total = %(total)s
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: delete_text
DELETE FROM corpus.texts
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s AND part >= %(part)s

-- name: insert_text
INSERT INTO corpus.texts (org_id, document_id, version, part, char_start, body)
VALUES (%(org_id)s, %(document_id)s, %(version)s, %(part)s, %(char_start)s, %(body)s)

-- name: ensure_space
SELECT corpus.ensure_space(%(model)s, %(revision)s, %(dimensions)s)

-- name: space_table
-- A separate statement, because the one that calls ensure_space doesn't see the new row.
SELECT space_id, table_name FROM corpus.spaces
WHERE (model, revision, dimensions) = (%(model)s, %(revision)s, %(dimensions)s)

-- name: staged
SELECT c.chunk_index, c.content_hash, c.char_start, v.chunk_id IS NOT NULL
FROM corpus.chunks c
LEFT JOIN {vectors} v ON v.org_id = c.org_id AND v.chunk_id = c.chunk_id
WHERE c.org_id = %(org_id)s AND c.document_id = %(document_id)s AND c.version = %(version)s
  AND c.chunk_index >= %(first)s
ORDER BY c.chunk_index
LIMIT %(most)s

-- name: delete_chunks
-- Deletes their vectors in every space, too.
DELETE FROM corpus.chunks
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s AND chunk_index >= %(first)s

-- name: insert_chunks
INSERT INTO corpus.chunks
    (org_id, document_id, version, chunk_index, text, token_count, content_hash, section, char_start,
     char_end, verbatim, place, places, input_hash)
SELECT %(org_id)s, %(document_id)s, %(version)s, fresh.*
FROM unnest(%(indices)s::int[], %(texts)s::text[], %(token_counts)s::int[], %(hashes)s::bytea[], %(sections)s::text[],
            %(char_starts)s::int[], %(char_ends)s::int[], %(verbatims)s::boolean[], %(place)s::jsonb[],
            %(places)s::jsonb[], %(input_hashes)s::bytea[]) AS fresh
RETURNING chunk_index, chunk_id

-- name: insert_terms
INSERT INTO corpus.lexical (org_id, chunk_id, document_id, version, terms)
SELECT %(org_id)s, fresh.chunk_id, %(document_id)s, %(version)s, fresh.terms::sparsevec
FROM unnest(%(chunk_ids)s::bigint[], %(terms)s::text[]) AS fresh (chunk_id, terms)
RETURNING 1  -- otherwise Citus uses COPY, which row-level security forbids

-- name: insert_vector
INSERT INTO {vectors} (org_id, chunk_id, document_id, version, embedding)
VALUES (%(org_id)s, %(chunk_id)s, %(document_id)s, %(version)s, %(embedding)s::halfvec)

-- name: live_inputs
-- Hashes of the texts from which the live version's chunks were embedded.
SELECT c.input_hash, c.chunk_id
FROM corpus.documents d
JOIN corpus.chunks c ON c.org_id = d.org_id AND c.document_id = d.document_id AND c.version = d.live_version
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s AND c.input_hash = ANY(%(hashes)s::bytea[])

-- name: copy_vectors
INSERT INTO {vectors} (org_id, chunk_id, document_id, version, embedding)
SELECT v.org_id, fresh.chunk_id, %(document_id)s, %(version)s, v.embedding
FROM unnest(%(chunk_ids)s::bigint[], %(from_chunk_ids)s::bigint[]) AS fresh (chunk_id, from_chunk_id)
JOIN {vectors} v ON v.org_id = %(org_id)s AND v.chunk_id = fresh.from_chunk_id

-- name: insert_missing_vector
-- Two jobs may work on the same version: one after its upload, and one that found vectors missing.
INSERT INTO {vectors} (org_id, chunk_id, document_id, version, embedding)
VALUES (%(org_id)s, %(chunk_id)s, %(document_id)s, %(version)s, %(embedding)s::halfvec)
ON CONFLICT (org_id, chunk_id) DO NOTHING

-- name: lock_document
SELECT live_version FROM corpus.documents
WHERE org_id = %(org_id)s AND document_id = %(document_id)s
FOR NO KEY UPDATE

-- name: claim_space
-- The first document of an organisation decides its space.
INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES (%(org_id)s, %(space_id)s)
ON CONFLICT (org_id) DO NOTHING

-- name: live_space
SELECT live_space_id FROM corpus.org_spaces WHERE org_id = %(org_id)s

-- name: version_ready
UPDATE corpus.versions
SET status = 'ready', stage = NULL, done = %(chunks)s, total = %(chunks)s, chunks = %(chunks)s, tokens = %(tokens)s,
    pages = %(pages)s, media_type = %(media_type)s, finished_at = now(),
    superseded_at = CASE WHEN %(overtaken)s THEN superseded_at END
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: version_overtaken
UPDATE corpus.versions SET superseded_at = least(superseded_at, now())
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: delete_jobs
-- For a database on several nodes, where the queue has no foreign key to versions.
DELETE FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: document_live
UPDATE corpus.documents
SET live_version = %(version)s, live_chunks = %(chunks)s, live_tokens = %(tokens)s,
    title = CASE WHEN title_given THEN title ELSE coalesce(%(title)s, title) END, updated_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s

-- name: supersede
-- Marks older versions of a document as superseded when a new one goes live: they aren't searched any more, and are deleted
-- later.
UPDATE corpus.versions SET superseded_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version < %(version)s AND superseded_at IS NULL
RETURNING version

-- name: supersede_on_nodes
-- The same for a database on several nodes, and also returns versions that are superseded already: a transaction commits on the
-- node first, so an earlier attempt may have marked them there without queueing their deletion on the coordinator.
UPDATE corpus.versions SET superseded_at = least(superseded_at, now())
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version < %(version)s
RETURNING version

-- name: drop_vectors
SELECT corpus.drop_vectors(%(org_id)s, %(document_id)s, %(version)s)

-- name: queue_sweep
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, next_run_at, user_id, plan)
VALUES (%(org_id)s, %(document_id)s, %(version)s, 'sweep', now() + make_interval(secs => %(keep_seconds)s), %(user_id)s,
        %(plan)s)
ON CONFLICT (org_id, document_id, version, kind) DO NOTHING

-- name: end_job
UPDATE corpus.ingest_jobs
SET state = %(state)s, worker = NULL, lease_until = NULL, updated_at = now()
WHERE org_id = %(org_id)s AND job_id = %(job_id)s

-- name: version_failed
UPDATE corpus.versions
SET status = 'failed', stage = NULL, error_code = %(code)s, error_message = %(message)s, finished_at = now()
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: version_pending
UPDATE corpus.versions SET status = 'pending', stage = NULL, done = 0, total = 0
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: requeue
UPDATE corpus.ingest_jobs
SET state = 'queued', worker = NULL, lease_until = NULL, updated_at = now(),
    attempts = attempts - CASE WHEN %(uncount)s THEN 1 ELSE 0 END,
    next_run_at = now() + make_interval(secs => %(delay_seconds)s)
WHERE org_id = %(org_id)s AND job_id = %(job_id)s

-- name: put_back
-- Requeues a job whose version is on an unreachable node, which takes only the queue on the coordinator. The attempt isn't
-- counted, because the job didn't fail.
UPDATE corpus.ingest_jobs
SET state = 'queued', worker = NULL, lease_until = NULL, updated_at = now(), attempts = attempts - 1,
    next_run_at = now() + make_interval(secs => %(delay_seconds)s)
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'

-- name: version_exists
SELECT 1 FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s

-- name: delete_orphan
DELETE FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'

-- name: lock_version
SELECT 1 FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
FOR UPDATE

-- name: forget_version
-- Deletes its bytes, text, chunks and jobs too, including the job that requested this.
DELETE FROM corpus.versions v USING corpus.documents d
WHERE v.org_id = %(org_id)s AND v.document_id = %(document_id)s AND v.version = %(version)s
  AND d.org_id = v.org_id AND d.document_id = v.document_id
  AND v.superseded_at IS NOT NULL AND d.live_version > v.version

-- name: queue_state
SELECT count(*), coalesce(extract(epoch FROM now() - min(next_run_at)), 0)::float8
FROM corpus.ingest_jobs
WHERE state = 'queued' AND kind = 'ingest' AND next_run_at <= now()

-- name: queue_embed
-- Queues the embedding of a version that went live in the further spaces.
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, plan, trace_context)
SELECT org_id, document_id, version, 'embed', user_id, plan, trace_context
FROM corpus.ingest_jobs WHERE org_id = %(org_id)s AND job_id = %(job_id)s
ON CONFLICT (org_id, document_id, version, kind) DO NOTHING

-- name: lock_live
-- No row means that the version isn't live any more. Otherwise no other version goes live before this transaction ends.
SELECT title FROM corpus.documents
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND live_version = %(version)s
FOR SHARE

-- name: unembedded
SELECT c.chunk_id, c.section, c.text, c.token_count
FROM corpus.chunks c
WHERE c.org_id = %(org_id)s AND c.document_id = %(document_id)s AND c.version = %(version)s
  AND NOT EXISTS (SELECT FROM {vectors} v WHERE v.org_id = c.org_id AND v.chunk_id = c.chunk_id)
ORDER BY c.chunk_index
LIMIT %(most)s

-- name: add_further_space
INSERT INTO corpus.further_spaces (org_id, space_id) VALUES (%(org_id)s, %(space_id)s)
ON CONFLICT (org_id, space_id) DO NOTHING
