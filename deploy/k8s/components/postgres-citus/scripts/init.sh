#!/bin/sh
# Runs once on each new node, before it is reached by others: the extension, the roles that the services connect as, and
# the passwords by which nodes reach one another as these.
#   POSTGRES_USER, POSTGRES_DB: the owner and the database; OWNER_PASSWORD, CORPUS_PASSWORD, WORKER_PASSWORD;
#   COORDINATOR: the coordinator's address, set on it only.
set -eu

run() {
  psql --no-psqlrc --quiet --no-password -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB"
}

# Values reach psql by its environment, and never stand on a command line.
run << 'SQL'
\getenv owner POSTGRES_USER
\getenv owner_password OWNER_PASSWORD
\getenv corpus_password CORPUS_PASSWORD
\getenv worker_password WORKER_PASSWORD
SET password_encryption = 'scram-sha-256';
CREATE EXTENSION citus;
CREATE ROLE citewire_corpus LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'corpus_password';
CREATE ROLE citewire_worker LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB PASSWORD :'worker_password';
-- Not in postgresql.conf: a move of shards has sessions of the owner's that are idle in a transaction.
ALTER ROLE citewire_corpus SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE citewire_corpus SET lock_timeout = '60s';
ALTER ROLE citewire_worker SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE citewire_worker SET lock_timeout = '60s';
INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo)
SELECT 0, role, 'password=''' || replace(replace(password, '\', '\\'), '''', '\''') || '''' -- as libpq quotes
FROM (VALUES (:'owner', :'owner_password'),
             ('citewire_corpus', :'corpus_password'),
             ('citewire_worker', :'worker_password')) AS known (role, password);
SQL

if [ -n "${COORDINATOR:-}" ]; then
  run << 'SQL'
\getenv coordinator COORDINATOR
SELECT citus_set_coordinator_host(:'coordinator') \g /dev/null
CREATE EXTENSION vector; -- the other nodes get it from here
SQL
fi
