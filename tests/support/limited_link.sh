#!/usr/bin/env bash
# limited_link.sh RATE COMMAND...: runs COMMAND in a network namespace of its own, with nothing but a loopback
# interface that carries RATE (as tc writes it: 1gbit). Needs user namespaces, or root.
set -euo pipefail
rate=$1
shift
exec unshare --map-root-user --net bash -c '
  set -e
  ip link set lo up
  tc qdisc add dev lo root tbf rate "$0" burst 256kb latency 200ms
  exec "$@"' "$rate" "$@"
