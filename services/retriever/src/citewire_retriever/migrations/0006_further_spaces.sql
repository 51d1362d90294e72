-- Further spaces: documents that are embedded once more, beside the organisation's live space, for systems that search with
-- a model of their own. The worker does it after a version went live, so that such a model's failure delays nobody else.

ALTER TABLE corpus.ingest_jobs DROP CONSTRAINT ingest_jobs_kind_check;
-- embed: embed a live version's chunks in the further spaces too.
ALTER TABLE corpus.ingest_jobs ADD CONSTRAINT ingest_jobs_kind_check CHECK (kind IN ('ingest', 'sweep', 'embed'));

-- Which spaces an organisation's searches may use beside the live one: those that hold at least one document whole.
CREATE TABLE corpus.further_spaces (
    org_id   text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id bigint NOT NULL REFERENCES corpus.spaces,
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, space_id)
);
SELECT corpus.protect('further_spaces');
GRANT SELECT ON corpus.further_spaces TO citewire_corpus;
GRANT SELECT, INSERT ON corpus.further_spaces TO citewire_worker;
