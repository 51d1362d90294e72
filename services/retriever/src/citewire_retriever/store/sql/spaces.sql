-- Embedding spaces as an organisation sees them.

-- name: spaces_of
-- The organisation's spaces, the live one first; the one that is being prepared may have no table yet. Roles are the
-- numbers of `SpaceRole`.
SELECT model, revision, dimensions, min(role) AS role, max(space_id) AS space_id, max(table_name) AS table_name
FROM (
    SELECT s.model, s.revision, s.dimensions, 1 AS role, s.space_id, s.table_name
    FROM corpus.org_spaces o JOIN corpus.spaces s ON s.space_id = o.live_space_id WHERE o.org_id = %(org_id)s
    UNION ALL
    SELECT n.model, n.revision, n.dimensions, 2, s.space_id, s.table_name
    FROM corpus.next_spaces n
    LEFT JOIN corpus.spaces s ON (s.model, s.revision, s.dimensions) = (n.model, n.revision, n.dimensions)
    WHERE n.org_id = %(org_id)s
    UNION ALL
    SELECT s.model, s.revision, s.dimensions, 3, s.space_id, s.table_name
    FROM corpus.org_spaces o JOIN corpus.spaces s ON s.space_id = o.previous_space_id WHERE o.org_id = %(org_id)s
    UNION ALL
    SELECT s.model, s.revision, s.dimensions, 4, s.space_id, s.table_name
    FROM corpus.further_spaces f JOIN corpus.spaces s ON s.space_id = f.space_id WHERE f.org_id = %(org_id)s
) roles
GROUP BY model, revision, dimensions
ORDER BY min(role), model, revision, dimensions

-- name: fill
-- Documents and chunks of live versions, and how many of them have vectors; reads one index entry per vector.
SELECT count(*) AS documents,
       count(*) FILTER (WHERE coalesce(f.chunks, 0) >= d.live_chunks) AS documents_filled,
       coalesce(sum(d.live_chunks), 0)::bigint AS chunks,
       coalesce(sum(least(coalesce(f.chunks, 0), d.live_chunks)), 0)::bigint AS chunks_filled
FROM corpus.documents d
LEFT JOIN {filled} f ON f.document_id = d.document_id AND f.version = d.live_version
WHERE d.org_id = %(org_id)s AND d.live_version IS NOT NULL

-- name: failed
SELECT count(*) AS documents_failed FROM corpus.ingest_jobs
WHERE org_id = %(org_id)s AND kind = 'backfill' AND state = 'failed'

-- name: filled
(SELECT document_id, version, count(*) AS chunks FROM {vectors} WHERE org_id = %(org_id)s GROUP BY document_id, version)

-- name: filled_nothing
(SELECT 0::bigint AS document_id, 0 AS version, 0::bigint AS chunks WHERE false)

-- name: calibration
-- The stored calibration of a space, with its report.
SELECT relevance_threshold, answerable_threshold, dense_weight, off_topic_threshold, measured_at, report
FROM corpus.space_calibrations WHERE org_id = %(org_id)s AND space_id = %(space_id)s

-- name: calibrate_space
INSERT INTO corpus.space_calibrations
    (org_id, space_id, relevance_threshold, answerable_threshold, dense_weight, off_topic_threshold, measured_at,
     report)
VALUES (%(org_id)s, %(space_id)s, %(relevance_threshold)s, %(answerable_threshold)s, %(dense_weight)s,
        %(off_topic_threshold)s, coalesce(%(measured_at)s, now()), %(report)s)
ON CONFLICT (org_id, space_id) DO UPDATE
SET relevance_threshold = excluded.relevance_threshold, answerable_threshold = excluded.answerable_threshold,
    dense_weight = excluded.dense_weight, off_topic_threshold = excluded.off_topic_threshold, measured_at = excluded.measured_at, report = excluded.report

-- name: forget_calibration
DELETE FROM corpus.space_calibrations WHERE org_id = %(org_id)s AND space_id = %(space_id)s

-- name: prepare_space
INSERT INTO corpus.next_spaces (org_id, model, revision, dimensions)
VALUES (%(org_id)s, %(model)s, %(revision)s, %(dimensions)s)
ON CONFLICT (org_id) DO UPDATE
SET model = excluded.model, revision = excluded.revision, dimensions = excluded.dimensions, since = excluded.since

-- name: forget_next
DELETE FROM corpus.next_spaces WHERE org_id = %(org_id)s

-- name: hold_pointer
-- Makes a second switch wait, so that it sees the result of the first.
SELECT live_space_id FROM corpus.org_spaces WHERE org_id = %(org_id)s FOR NO KEY UPDATE

-- name: switch_space
UPDATE corpus.org_spaces
SET previous_space_id = live_space_id, live_space_id = %(space_id)s, switched_at = now()
WHERE org_id = %(org_id)s AND live_space_id <> %(space_id)s

-- name: forget_reached
DELETE FROM corpus.next_spaces
WHERE org_id = %(org_id)s AND (model, revision, dimensions) = (%(model)s, %(revision)s, %(dimensions)s)
