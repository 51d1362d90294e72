#!/bin/sh
# Runs Postgres on /data, made on the first start: every connection by TCP needs its password.
set -eu
if [ ! -f /data/pg/PG_VERSION ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --pgdata=/data/new --username=postgres --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 \
    --locale-provider=builtin --builtin-locale=C.UTF-8 --locale=C --no-instructions > /tmp/initdb.log 2>&1 \
    || { cat /tmp/initdb.log >&2; exit 1; }
  echo "host all all all scram-sha-256" >> /data/new/pg_hba.conf
  rm /tmp/password
  mv /data/new /data/pg
fi
exec postgres -D /data/pg -c listen_addresses='*' -c unix_socket_directories=/tmp -c max_connections=200 \
  -c shared_buffers=256MB -c jit=off -c dynamic_shared_memory_type=mmap -c log_min_messages=warning
