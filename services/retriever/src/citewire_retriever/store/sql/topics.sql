-- Measurements by which a search is judged: whether its results have to do with the question.

-- name: library
-- The scale of a space as measured for the organisation, and the centroid of the library or of one of its collections.
SELECT s.table_name, m.unrelated, m.deviation, m.related, c.chunks, c.centroid::vector::real[]
FROM corpus.spaces s
LEFT JOIN corpus.space_scales m ON m.org_id = %(org_id)s AND m.space_id = s.space_id
LEFT JOIN corpus.centroids c ON c.org_id = %(org_id)s AND c.space_id = s.space_id AND c.collection_id = CASE
    WHEN %(collection)s = '' THEN 0
    ELSE (SELECT k.collection_id FROM corpus.collections k WHERE k.org_id = %(org_id)s AND k.name = %(collection)s)
END
WHERE (s.model, s.revision, s.dimensions) = (%(model)s, %(revision)s, %(dimensions)s)

-- name: scale
SELECT unrelated, deviation, related FROM corpus.space_scales
WHERE org_id = %(org_id)s AND space_id = %(space_id)s
