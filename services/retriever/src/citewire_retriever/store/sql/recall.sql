-- Sampled recall. Blanks as in search.sql, {by_index} and {by_scan} are its orders. How many the graph gave, how many
-- the scan gave, and how many of the graph's first ones are as near as the scan's last one.

-- name: recall_of_chunks
WITH walked AS MATERIALIZED (
    SELECT v.chunk_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {by_index}
    LIMIT %(candidates)s
),
scanned AS MATERIALIZED (
    SELECT v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {by_scan}
    LIMIT %(first)s
)
SELECT (SELECT count(*) FROM walked), (SELECT count(*) FROM scanned), count(*)
FROM (SELECT distance FROM walked ORDER BY distance LIMIT %(first)s) given
WHERE given.distance <= (SELECT max(distance) FROM scanned)

-- name: recall_of_documents
WITH walked AS MATERIALIZED (
    SELECT v.document_id, v.embedding <=> %(vector)s::halfvec AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    ORDER BY {by_index}
    LIMIT %(candidates)s
),
scanned AS MATERIALIZED (
    SELECT min(v.embedding <=> %(vector)s::halfvec) AS distance
    FROM {vectors} v
    JOIN corpus.documents d
      ON d.org_id = v.org_id AND d.document_id = v.document_id AND d.live_version = v.version
    WHERE v.org_id = %(org_id)s AND d.org_id = %(org_id)s AND {scope}
    GROUP BY v.document_id
    ORDER BY 1
    LIMIT %(first)s
)
SELECT (SELECT count(DISTINCT document_id) FROM walked), (SELECT count(*) FROM scanned), count(*)
FROM (SELECT min(distance) AS distance FROM walked GROUP BY document_id ORDER BY 1 LIMIT %(first)s) given
WHERE given.distance <= (SELECT max(distance) FROM scanned)
