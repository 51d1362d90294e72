-- What similarities are in an embedding space, and what an organisation's library is about: with these a search tells
-- that nothing it found has to do with the question. Made by workers in the background, from nothing of other tenants.

-- Similarities of built-in questions and texts, by the model that serves the organisation: its own provider's space may
-- only have another's name.
CREATE TABLE corpus.space_scales (
    org_id        text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id      bigint NOT NULL REFERENCES corpus.spaces,
    -- Of the built-in texts: others are measured anew.
    texts_version integer NOT NULL,
    -- Mean and standard deviation of the cosine similarity of a question and a text that has nothing to do with it.
    unrelated     double precision NOT NULL CHECK (unrelated BETWEEN -1 AND 1),
    deviation     double precision NOT NULL CHECK (deviation > 0),
    -- Median of those of a question and the text that answers it, in standard deviations above the mean.
    related       double precision NOT NULL,
    measured_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, space_id)
);
SELECT corpus.protect('space_scales');
GRANT SELECT ON corpus.space_scales TO citewire_corpus;
GRANT SELECT, INSERT, UPDATE ON corpus.space_scales TO citewire_worker;

-- The mean of a library's vectors, from a sample, and that of each large collection; collection 0 is the whole library.
CREATE TABLE corpus.centroids (
    org_id        text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id      bigint NOT NULL REFERENCES corpus.spaces,
    collection_id bigint NOT NULL,
    -- Chunks that there were, in the sample's order of magnitude: a library that has grown or shrunk is sampled anew.
    chunks        bigint NOT NULL,
    centroid      halfvec NOT NULL,
    PRIMARY KEY (org_id, space_id, collection_id)
);
SELECT corpus.protect('centroids');
GRANT SELECT ON corpus.centroids TO citewire_corpus;
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.centroids TO citewire_worker;

-- What an organisation had measured counts in place of what is derived.
ALTER TABLE corpus.space_calibrations
    ADD COLUMN off_topic_threshold double precision CHECK (off_topic_threshold BETWEEN 0 AND 1);
