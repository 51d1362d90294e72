-- Sampled recall. {walk} is the query of that name in search.sql, {by_scan} its order. The columns are: how many results the
-- graph returned, how many of these a second walk found (NULL without one), how many the scan returned, and how many of the
-- graph's first ones are as near as the scan's last.

-- name: recall_of_chunks
{walk},
scanned AS MATERIALIZED (
    SELECT v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {by_scan}
    LIMIT %(sample_size)s
)
SELECT (SELECT count(*) FROM candidates), (SELECT found_again FROM looked), (SELECT count(*) FROM scanned), count(*)
FROM (SELECT distance FROM candidates ORDER BY distance LIMIT %(sample_size)s) given
WHERE given.distance <= (SELECT max(distance) FROM scanned)

-- name: recall_of_documents
{walk},
scanned AS MATERIALIZED (
    SELECT min(v.embedding <=> %(vector)s::halfvec) AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    GROUP BY v.document_id
    ORDER BY 1
    LIMIT %(sample_size)s
)
SELECT (SELECT count(DISTINCT document_id) FROM candidates), (SELECT found_again FROM looked), (SELECT count(*) FROM scanned),
       count(*)
FROM (SELECT min(distance) AS distance FROM candidates GROUP BY document_id ORDER BY 1 LIMIT %(sample_size)s) given
WHERE given.distance <= (SELECT max(distance) FROM scanned)
