-- Thresholds that an organisation had measured for an embedding space: they count in place of those that come with the
-- server. A row takes the place of another as a whole; what it leaves NULL wasn't derived.
CREATE TABLE corpus.space_calibrations (
    org_id               text COLLATE "C" NOT NULL CHECK (org_id <> ''),
    space_id             bigint NOT NULL REFERENCES corpus.spaces,
    relevance_threshold  double precision CHECK (relevance_threshold BETWEEN 0 AND 1),
    answerable_threshold double precision CHECK (answerable_threshold BETWEEN 0 AND 1),
    dense_weight         double precision CHECK (dense_weight BETWEEN 0 AND 1),
    measured_at          timestamptz NOT NULL DEFAULT now(),
    report               jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(report) = 'object'),
    PRIMARY KEY (org_id, space_id)
);
SELECT corpus.protect('space_calibrations');
GRANT SELECT, INSERT, UPDATE, DELETE ON corpus.space_calibrations TO citewire_corpus;
