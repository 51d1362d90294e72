-- Profiles that tenants make of the server's, each version a row: a chat's record names what it ran with.

CREATE TABLE chat.profiles (
    org_id      text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_-]{0,63}$'),
    version     integer NOT NULL CHECK (version >= 1),
    base        text NOT NULL,                            -- the server's profile that it changes
    description text NOT NULL DEFAULT '' CHECK (length(description) <= 500),
    changes     jsonb NOT NULL CHECK (jsonb_typeof(changes) = 'object'),
    deleted     boolean NOT NULL DEFAULT false,
    created_by  text COLLATE "C" NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, name, version)
);

SELECT chat.protect('profiles');

GRANT SELECT, INSERT ON chat.profiles TO citewire_chat;
