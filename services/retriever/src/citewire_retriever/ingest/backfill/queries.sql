-- The backfill's queries.

-- name: take_due
-- Takes the check that has been due longest, for one worker. Only these rows and jobs are read across tenants.
UPDATE corpus.backfill_checks checks
SET next_at = now() + make_interval(secs => %(again_seconds)s)
FROM (SELECT org_id FROM corpus.backfill_checks WHERE next_at <= now()
      ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED) AS due
WHERE checks.org_id = due.org_id
RETURNING checks.org_id

-- name: come_back
UPDATE corpus.backfill_checks SET next_at = least(next_at, now() + make_interval(secs => %(seconds)s))
WHERE org_id = %(org_id)s

-- name: target_spaces
-- The organisation's live space, the space that it prepares, and whether that one is registered. No row if it has neither.
SELECT live.model, live.revision, live.dimensions, following.model, following.revision, following.dimensions,
       registered.space_id IS NOT NULL
FROM (SELECT org_id, live_space_id FROM corpus.org_spaces WHERE org_id = %(org_id)s) o
FULL JOIN (SELECT org_id, model, revision, dimensions FROM corpus.next_spaces WHERE org_id = %(org_id)s) following
  ON following.org_id = o.org_id
LEFT JOIN corpus.spaces live ON live.space_id = o.live_space_id
LEFT JOIN corpus.spaces registered
  ON (registered.model, registered.revision, registered.dimensions)
   = (following.model, following.revision, following.dimensions)

-- name: live_title
SELECT d.title, v.file_name
FROM corpus.documents d
JOIN corpus.versions v ON (v.org_id, v.document_id, v.version) = (d.org_id, d.document_id, d.live_version)
WHERE d.org_id = %(org_id)s AND d.document_id = %(document_id)s AND d.live_version = %(version)s

-- name: forget_given_up
DELETE FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND kind = 'backfill' AND state = 'failed'
  AND updated_at < now() - make_interval(secs => %(again)s)

-- name: waiting
SELECT count(*) FROM corpus.ingest_jobs WHERE org_id = %(org_id)s AND kind = 'backfill' AND state <> 'failed'

-- name: incomplete
-- {vectors} may also be corpus.lexical, whose keys are the same. Documents are locked; those that another transaction has
-- locked (usually to delete them) are left for the next check, so that no deadlock is possible.
SELECT d.document_id, d.live_version, d.owner
FROM corpus.documents d
LEFT JOIN (SELECT document_id, version, count(*) AS chunks FROM {vectors} WHERE org_id = %(org_id)s
           GROUP BY document_id, version) f ON f.document_id = d.document_id AND f.version = d.live_version
WHERE d.org_id = %(org_id)s AND d.live_version IS NOT NULL AND d.live_chunks > coalesce(f.chunks, 0)
  AND NOT EXISTS ({taken})
ORDER BY d.created_at DESC, d.document_id DESC
LIMIT %(most)s
FOR KEY SHARE OF d SKIP LOCKED

-- name: not_enriched
-- Live versions in enriched collections that were never queued, because they went live before or just when enrichment was
-- switched on. Newest first; locked as above.
SELECT d.document_id, d.live_version, d.owner
FROM corpus.collections c
JOIN corpus.documents d ON d.org_id = c.org_id AND d.collection_id = c.collection_id
WHERE c.org_id = %(org_id)s AND c.enrich AND d.live_version IS NOT NULL
  AND NOT EXISTS ({taken})
ORDER BY d.created_at DESC, d.document_id DESC
LIMIT %(most)s
FOR KEY SHARE OF d SKIP LOCKED

-- name: taken
-- Jobs that a version already has, so that none is queued twice.
SELECT 1 FROM corpus.ingest_jobs j
WHERE j.org_id = d.org_id AND j.document_id = d.document_id AND j.version = d.live_version
  AND (j.kind = %(kind)s OR %(further)s AND j.kind = 'embed' AND j.state IN ('queued', 'running'))

-- name: taken_there
-- The same for a database on several nodes, where shards can't reach the queue: looks in what `jobs` has returned.
SELECT 1 FROM unnest(%(document_ids)s::bigint[], %(versions)s::integer[]) AS j (document_id, version)
WHERE j.document_id = d.document_id AND j.version = d.live_version

-- name: jobs
SELECT coalesce(array_agg(j.document_id), '{}'), coalesce(array_agg(j.version), '{}')
FROM corpus.ingest_jobs j
WHERE j.org_id = %(org_id)s
  AND (j.kind = %(kind)s OR %(further)s AND j.kind = 'embed' AND j.state IN ('queued', 'running'))

-- name: queue
-- Queues jobs on behalf of whoever saved the version.
INSERT INTO corpus.ingest_jobs (org_id, document_id, version, kind, user_id, plan)
SELECT %(org_id)s, gaps.document_id, gaps.version, %(kind)s, coalesce(upload.user_id, gaps.owner),
       coalesce(upload.plan, 'free')
FROM unnest(%(document_ids)s::bigint[], %(versions)s::integer[], %(owners)s::text[])
     AS gaps (document_id, version, owner)
LEFT JOIN corpus.ingest_jobs upload
  ON upload.org_id = %(org_id)s AND upload.document_id = gaps.document_id AND upload.version = gaps.version
 AND upload.kind = 'ingest'
ON CONFLICT (org_id, document_id, version, kind) DO NOTHING

-- name: hold_version
-- Locks are taken in the order document, version, job.
SELECT 1 FROM corpus.versions
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND version = %(version)s
FOR UPDATE

-- name: add_further_space
INSERT INTO corpus.further_spaces (org_id, space_id) VALUES (%(org_id)s, %(space_id)s)
ON CONFLICT (org_id, space_id) DO NOTHING

-- name: forget_job
DELETE FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'

-- name: fail_job
UPDATE corpus.ingest_jobs SET state = 'failed', worker = NULL, lease_until = NULL, updated_at = now()
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'

-- name: hold_live
-- No row means that the version isn't live any more. Otherwise it stays live, and in its collection, until this transaction
-- ends. Returns the document's access, by which its terms are counted.
SELECT coalesce(access_id, collection_id, 0) FROM corpus.documents
WHERE org_id = %(org_id)s AND document_id = %(document_id)s AND live_version = %(version)s
FOR SHARE

-- name: hold_job
SELECT 1 FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND job_id = %(job_id)s AND fence = %(fence)s AND state = 'running'
FOR NO KEY UPDATE

-- name: without_terms
SELECT c.chunk_id, c.section, c.text
FROM corpus.chunks c
WHERE c.org_id = %(org_id)s AND c.document_id = %(document_id)s AND c.version = %(version)s
  AND NOT EXISTS (SELECT FROM corpus.lexical l WHERE l.org_id = c.org_id AND l.chunk_id = c.chunk_id)
ORDER BY c.chunk_index
LIMIT %(most)s

-- name: add_terms
-- Adds the terms of a version that is already live.
INSERT INTO corpus.lexical (org_id, chunk_id, document_id, version, terms)
SELECT %(org_id)s, added.chunk_id, %(document_id)s, %(version)s, added.terms::sparsevec
FROM unnest(%(chunk_ids)s::bigint[], %(terms)s::text[]) AS added (chunk_id, terms)
ON CONFLICT (org_id, chunk_id) DO NOTHING
RETURNING terms::text

-- name: count_terms
-- Counts the added terms, which the trigger on corpus.documents didn't see.
INSERT INTO corpus.term_counts AS stored (org_id, term, collection_id, chunks)
SELECT %(org_id)s, terms.term, %(access_id)s, count(*)
FROM (
    SELECT split_part(pair, ':', 1)::integer AS term
    FROM unnest(%(added)s::text[]) AS fresh (terms)
    CROSS JOIN LATERAL unnest(string_to_array(split_part(ltrim(fresh.terms, '{'), '}', 1), ',')) AS pair
    WHERE pair <> ''
    UNION ALL
    SELECT 0 FROM unnest(%(added)s::text[])
) terms
GROUP BY terms.term
ORDER BY terms.term
ON CONFLICT (org_id, term, collection_id) DO UPDATE SET chunks = stored.chunks + excluded.chunks
RETURNING 1

-- name: has_scale
SELECT 1 FROM corpus.space_scales
WHERE org_id = %(org_id)s AND space_id = %(space_id)s AND texts_version = %(texts_version)s

-- name: put_scale
INSERT INTO corpus.space_scales (org_id, space_id, texts_version, unrelated, deviation, related)
VALUES (%(org_id)s, %(space_id)s, %(texts_version)s, %(unrelated)s, %(deviation)s, %(related)s)
ON CONFLICT (org_id, space_id) DO UPDATE
SET texts_version = excluded.texts_version, unrelated = excluded.unrelated, deviation = excluded.deviation,
    related = excluded.related, measured_at = excluded.measured_at

-- name: centroids_due
-- The number of live chunks, if the library's centroid is missing or the library has since grown or shrunk by about a quarter;
-- else no row.
SELECT own.chunks
FROM (SELECT coalesce(sum(live_chunks), 0)::bigint AS chunks FROM corpus.documents
      WHERE org_id = %(org_id)s AND live_version IS NOT NULL) own
LEFT JOIN corpus.centroids c ON c.org_id = %(org_id)s AND c.space_id = %(space_id)s AND c.collection_id = 0
WHERE own.chunks > 0 AND (c.chunks IS NULL OR own.chunks NOT BETWEEN c.chunks * 0.8 AND c.chunks * 1.25)

-- name: forget_centroids
DELETE FROM corpus.centroids WHERE org_id = %(org_id)s AND space_id = %(space_id)s

-- name: sample_centroids
-- Computes the centroids of the library and of its collections that have enough chunks, from a sample chosen by a hash of the
-- chunks' ids.
WITH sample AS MATERIALIZED (
    SELECT coalesce(d.collection_id, 0) AS collection_id, l2_normalize(v.embedding) AS embedding
    FROM {vectors} v
    JOIN corpus.documents d ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s
      AND (hashint8(v.chunk_id)::bigint + 2147483648) %% %(every)s::bigint = 0
)
INSERT INTO corpus.centroids (org_id, space_id, collection_id, chunks, centroid)
SELECT %(org_id)s, %(space_id)s, 0, %(chunks)s, avg(embedding) FROM sample HAVING count(*) > 0
UNION ALL
(SELECT %(org_id)s, %(space_id)s, collection_id, count(*) * %(every)s, avg(embedding)
 FROM sample WHERE collection_id <> 0
 GROUP BY collection_id HAVING count(*) >= %(least)s
 ORDER BY count(*) DESC LIMIT %(most)s)
RETURNING 1  -- otherwise Citus uses COPY, which row-level security forbids
