-- Run by the superuser at every start of the local stack; what has been done before does nothing.
SET client_min_messages = warning;

-- Owns the database and runs the migrations; makes the application roles. No superuser, so that row-level security
-- binds it and the functions it owns as it does in production.
SELECT 'CREATE ROLE citewire_owner LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'citewire_owner')
\gexec

SELECT 'CREATE DATABASE citewire OWNER citewire_owner'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = 'citewire')
\gexec

\connect citewire
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vector;
ALTER EXTENSION vector UPDATE;
