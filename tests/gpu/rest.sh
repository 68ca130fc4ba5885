#!/bin/sh
# Reads names of functions; writes C for those that OBJECT does not define, each returning STATUS.
#   rest.sh OBJECT STATUS
set -eu
defined=$(mktemp)
trap 'rm -f "$defined"' EXIT
nm --defined-only "$1" | sed -n 's/.* T //p' | sort -u > "$defined"
echo '#include <stdio.h>'
comm -23 - "$defined" |
    sed "s/.*/int &(void) { fprintf(stderr, \"& is not emulated\\\\n\"); return $2; }/"
