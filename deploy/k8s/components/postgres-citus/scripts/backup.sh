#!/bin/sh
# Takes a base backup of each node, one after the other, and lets the oldest go:
#   backup.sh FOLDER LABEL KEEP NAME=HOST[:PORT]...
# FOLDER/NAME gets base/LABEL, beside wal, in which archive.sh puts the node's log. KEEP base backups of each node are
# kept, with the log since the oldest of them. Restore them with restore.sh, to a point that was made after this ended.
# User, password and TLS come from libpq's own variables (PGUSER, PGPASSWORD, PGSSLMODE...).
set -eu
folder="$1" label="$2" keep="$3"
shift 3

for node in "$@"; do
  name="${node%%=*}" address="${node#*=}"
  host="${address%:*}" port=5432
  [ "$host" = "$address" ] || port="${address##*:}"
  bases="$folder/$name/base"
  mkdir -p "$bases"
  if [ ! -e "$bases/$label" ]; then # run again after a failure, it goes on
    rm -rf "$bases/.part"
    # The log since the beginning is in the archive: the server waits for that at the end.
    pg_basebackup --host="$host" --port="$port" --pgdata="$bases/.part" --checkpoint=fast --wal-method=none --no-password
    mv "$bases/.part" "$bases/$label"
  fi
  # Labels sort by time. What is older than the last KEEP goes, and the log before the oldest that stays.
  ls "$bases" | sort -r | tail -n "+$((keep + 1))" | while read -r old; do rm -rf "${bases:?}/$old"; done
  first="$(sed -n 's/^START WAL LOCATION: .*(file \([0-9A-F]*\))$/\1/p' "$bases/$(ls "$bases" | sort | head -n 1)/backup_label")"
  pg_archivecleanup --clean-backup-history "$folder/$name/wal" "$first"
done
