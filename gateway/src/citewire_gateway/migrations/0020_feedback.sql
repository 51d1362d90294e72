-- What users think of answers in their own conversations. It stands with its answer, and goes with it.

CREATE TABLE chat.feedback (
    org_id          text COLLATE "C" NOT NULL,
    conversation_id uuid NOT NULL,
    ordinal         integer NOT NULL,                     -- of the answer
    user_id         text COLLATE "C" NOT NULL,            -- whose conversation it is
    rating          text NOT NULL CHECK (rating IN ('up', 'down')),
    reasons         text[] NOT NULL DEFAULT '{}' CHECK (cardinality(reasons) <= 10),
    comment         text NOT NULL DEFAULT '' CHECK (length(comment) <= 2000),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, conversation_id, ordinal),
    FOREIGN KEY (org_id, conversation_id, ordinal) REFERENCES chat.messages ON DELETE CASCADE
);
-- Latest first, for admins.
CREATE INDEX feedback_by_time ON chat.feedback (org_id, updated_at DESC, conversation_id DESC, ordinal DESC);
SELECT chat.protect('feedback');
GRANT SELECT, INSERT, UPDATE, DELETE ON chat.feedback TO citewire_chat;

-- Beside the queries, which name the user: no transaction of another user's gives, changes or takes back feedback.
CREATE POLICY own_insert ON chat.feedback AS RESTRICTIVE FOR INSERT TO citewire_chat
    WITH CHECK (user_id = current_setting('citewire.user_id', true));
CREATE POLICY own_update ON chat.feedback AS RESTRICTIVE FOR UPDATE TO citewire_chat
    USING (user_id = current_setting('citewire.user_id', true))
    WITH CHECK (user_id = current_setting('citewire.user_id', true));
CREATE POLICY own_delete ON chat.feedback AS RESTRICTIVE FOR DELETE TO citewire_chat
    USING (user_id = current_setting('citewire.user_id', true));
