#!/bin/sh
# Takes a base backup of each node, one after the other, and lets the oldest go:
#   backup.sh FOLDER LABEL KEEP NAME=HOST[:PORT]...
# FOLDER/NAME gets base/LABEL, beside wal, in which archive.sh puts the node's log. FOLDER/whole names the labels that all
# nodes have. KEEP of these stay, with the log since the oldest. Restore them with restore.sh, to a point that was made
# after this ended. Run again with the same label after a failure, it goes on.
# User, password and TLS come from libpq's own variables (PGUSER, PGPASSWORD, PGSSLMODE...).
set -eu
folder="$1" label="$2" keep="$3"
shift 3

# prune COUNT NODE...: only LABEL stays, and the last COUNT others that all nodes have, with the log since the oldest.
# Labels sort by time. Parts of a backup that failed on another node go: the cluster can't be restored from them.
prune() {
  stay="$(ls "$folder/whole" | grep -Fvx -e "$label" | sort | tail -n "$1")"
  shift
  for node in "$@"; do
    bases="$folder/${node%%=*}/base"
    mkdir -p "$bases"
    rm -rf "$bases"/.part.*
    ls "$bases" | grep -Fvx -e "$label" -e "$stay" | while read -r old; do rm -rf "${bases:?}/$old"; done
    first="$(sed -n 's/^START WAL LOCATION: .*(file \([0-9A-F]*\))$/\1/p' "$bases"/*/backup_label 2> /dev/null | sort | head -n 1)"
    [ -z "$first" ] || pg_archivecleanup --clean-backup-history "${bases%/base}/wal" "$first"
  done
  ls "$folder/whole" | grep -Fvx -e "$label" -e "$stay" | while read -r old; do rm "$folder/whole/$old"; done
}

# Room first: otherwise an archive that is full stays full. The last whole backup is never deleted before its successor.
mkdir -p "$folder/whole"
prune "$((keep > 1 ? keep - 1 : 1))" "$@"
for node in "$@"; do
  name="${node%%=*}" address="${node#*=}"
  host="${address%:*}" port=5432
  [ "$host" = "$address" ] || port="${address##*:}"
  bases="$folder/$name/base"
  if [ ! -e "$bases/$label" ]; then
    # The log since the beginning is in the archive: the server waits for that at the end.
    part="$bases/.part.$label" # its own: a run at the same time, such as one by hand, removes it, and this one fails
    pg_basebackup --host="$host" --port="$port" --pgdata="$part" --checkpoint=fast --wal-method=none --no-password
    mv "$part" "$bases/$label"
  fi
done
for node in "$@"; do
  if [ ! -e "$folder/${node%%=*}/base/$label" ]; then
    echo "backup.sh: $label of ${node%%=*} was removed meanwhile, by another run: run this one again" >&2
    exit 1
  fi
done
touch "$folder/whole/$label"
prune "$((keep - 1))" "$@"
