-- Collections: named groups of documents.

-- name: page_of_collections
SELECT c.name,
       (SELECT count(*) FROM corpus.documents d WHERE d.org_id = %(org_id)s AND d.collection_id = c.collection_id) AS documents,
       c.created_at, c.enrich, corpus.collection_access(c.collection_id) AS access
FROM corpus.collections c
WHERE c.org_id = %(org_id)s AND (%(after)s::text IS NULL OR c.name > %(after)s::text)
  AND strpos(lower(c.name), lower(%(part)s::text)) > 0
ORDER BY c.name
LIMIT %(limit)s

-- name: one_collection
SELECT c.name,
       (SELECT count(*) FROM corpus.documents d WHERE d.org_id = %(org_id)s AND d.collection_id = c.collection_id) AS documents,
       c.created_at, c.enrich, corpus.collection_access(c.collection_id) AS access
FROM corpus.collections c
WHERE c.org_id = %(org_id)s AND c.name = %(name)s

-- name: insert_collection
INSERT INTO corpus.collections (org_id, name, enrich) VALUES (%(org_id)s, %(name)s, %(enrich)s)
ON CONFLICT (org_id, name) DO NOTHING

-- name: find_collection
SELECT collection_id, corpus.collection_access(collection_id) FROM corpus.collections
WHERE org_id = %(org_id)s AND name = %(name)s

-- name: hold_collection
-- Takes the lock of a foreign key early, so that nobody deletes the collection before this transaction ends.
SELECT collection_id FROM corpus.collections WHERE org_id = %(org_id)s AND name = %(name)s FOR KEY SHARE

-- name: lock_collection
SELECT collection_id FROM corpus.collections WHERE org_id = %(org_id)s AND name = %(name)s FOR UPDATE

-- name: update_collection
-- NULL leaves a field unchanged.
UPDATE corpus.collections SET name = coalesce(%(new_name)s, name), enrich = coalesce(%(enrich)s::boolean, enrich)
WHERE org_id = %(org_id)s AND name = %(name)s

-- name: collection_in_use
SELECT EXISTS (SELECT FROM corpus.documents WHERE org_id = %(org_id)s AND collection_id = %(collection_id)s)

-- name: delete_collection
DELETE FROM corpus.collections WHERE org_id = %(org_id)s AND collection_id = %(collection_id)s

-- name: grants
SELECT subject, access FROM corpus.collection_grants
WHERE org_id = %(org_id)s AND collection_id = %(collection_id)s
ORDER BY subject

-- name: delete_grants
DELETE FROM corpus.collection_grants WHERE org_id = %(org_id)s AND collection_id = %(collection_id)s

-- name: insert_grants
-- Inserts all grants at once: after the first, the caller might not be allowed to manage the collection any more.
INSERT INTO corpus.collection_grants (org_id, collection_id, subject, access)
SELECT %(org_id)s, %(collection_id)s, given.subject, given.access
FROM unnest(%(subjects)s::text[], %(accesses)s::text[]) AS given (subject, access)
RETURNING 1  -- otherwise Citus uses COPY, which row-level security forbids
