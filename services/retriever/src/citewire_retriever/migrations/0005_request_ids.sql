-- Which request made a version. Whether a commit arrived can't be known when the database goes away under it: a caller
-- that sends the request again must not make a second document.

ALTER TABLE corpus.versions ADD COLUMN request_id text COLLATE "C" CHECK (length(request_id) BETWEEN 1 AND 128);
CREATE UNIQUE INDEX versions_request ON corpus.versions (org_id, request_id) WHERE request_id IS NOT NULL;
