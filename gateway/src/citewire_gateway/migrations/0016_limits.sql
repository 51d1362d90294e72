-- Limits in place of the plan's: the operator's of an organisation, and its admins' of users and API keys.
CREATE TABLE chat.limits (
    org_id     text COLLATE "C" NOT NULL REFERENCES chat.orgs ON DELETE CASCADE,
    scope      text COLLATE "C" NOT NULL CHECK (scope IN ('org', 'user', 'key')),
    subject    text COLLATE "C" NOT NULL CHECK ((subject = '') = (scope = 'org')),  -- the user, or the key's id
    measure    text COLLATE "C" NOT NULL,
    most       bigint NOT NULL CHECK (most >= 0),
    updated_by text COLLATE "C" NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Whose it is where it is a user's: with the user it goes.
    user_id    text COLLATE "C" GENERATED ALWAYS AS (CASE scope WHEN 'user' THEN subject END) STORED,
    PRIMARY KEY (org_id, scope, subject, measure),
    FOREIGN KEY (org_id, user_id) REFERENCES chat.users ON DELETE CASCADE
);
SELECT chat.protect('limits');
GRANT SELECT, INSERT, UPDATE, DELETE ON chat.limits TO citewire_chat;
