#!/usr/bin/env bash
# Installs an overlay, or upgrades to it, in the order that loses no request: what surrounds the processes, migrations
# that the old version bears, the processes one replica at a time, and the migrations that take the old version's
# things away. Safe to run again after any failure.
#
#   deploy/k8s/roll.sh deploy/k8s/overlays/prod
set -euo pipefail

fail() {
  printf 'roll.sh: %s\n' "$@" >&2
  exit 1
}

[ $# -eq 1 ] || fail 'usage: deploy/k8s/roll.sh OVERLAY, for example deploy/k8s/overlays/dev'
overlay="$1"
namespace="${NAMESPACE:-citewire}"
command -v kubectl > /dev/null || fail 'kubectl is not installed'
if ! reason="$(kubectl get --raw /version --request-timeout=10s 2>&1 > /dev/null)"; then
  fail 'no cluster answers; nothing was changed' "$(tail -n 1 <<< "$reason")" \
    'choose one with `kubectl config use-context NAME`, or set KUBECONFIG; `kubectl config get-contexts` lists them'
fi
rendered="$(mktemp)"
trap 'rm -f "$rendered"' EXIT
kubectl kustomize "$overlay" > "$rendered"

say() { printf '\n== %s\n' "$*"; }
apply() { kubectl apply --server-side --force-conflicts -f "$rendered" -l "$1"; }

# A Job can't be changed, and says when it has failed as well as when it is done.
migrate() {
  kubectl -n "$namespace" delete job "migrate-$1" --ignore-not-found --wait
  apply "citewire.dev/step=migrate-$1"
  kubectl -n "$namespace" patch job "migrate-$1" --type merge -p '{"spec":{"suspend":false}}'
  until kubectl -n "$namespace" wait --for=condition=Complete "job/migrate-$1" --timeout=15s 2> /dev/null; do
    if kubectl -n "$namespace" wait --for=condition=Failed "job/migrate-$1" --timeout=1s 2> /dev/null; then
      kubectl -n "$namespace" logs "job/migrate-$1" --all-containers --tail=50
      echo "migrate-$1 failed. Nothing after it was done." >&2
      exit 1
    fi
  done
}

say "namespace, settings, policies, database"
apply '!citewire.dev/step'
if grep -q '^kind: Cluster$' "$rendered"; then
  kubectl -n "$namespace" wait --for=condition=Ready cluster/citewire-postgres --timeout=30m
fi
if grep -q '^  name: citus-coordinator$' "$rendered"; then # each node restarts when its settings change
  for name in citus-coordinator citus-worker; do
    kubectl -n "$namespace" rollout status "statefulset/$name" --timeout=60m
  done
fi

say "migrations before"
migrate pre

say "processes"
apply 'citewire.dev/step=serve'
# A replica that leaves may drain for five and a half minutes; those of one Deployment leave one after the other.
for name in embedder retriever worker generator gateway; do
  kubectl -n "$namespace" rollout status "deployment/$name" --timeout=60m
done
# Old replicas are gone when no pod of an older version is left, not when the new ones are ready.
until [ -z "$(kubectl -n "$namespace" get pods -l citewire.dev/step=serve -o jsonpath='{range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name}{"\n"}{end}')" ]; do
  sleep 5
done

say "migrations after"
migrate post
say "done"
