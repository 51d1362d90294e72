-- From when, and until when, a document is found. NULL: always. Nothing is rewritten or validated: all rows have neither.
ALTER TABLE corpus.documents
    ADD COLUMN valid_from  timestamptz,
    ADD COLUMN valid_until timestamptz,  -- exclusive
    ADD CONSTRAINT documents_validity CHECK (valid_from < valid_until) NOT VALID;

-- What retention erases when its time is over.
CREATE INDEX documents_by_expiry ON corpus.documents (org_id, valid_until) WHERE valid_until IS NOT NULL;
