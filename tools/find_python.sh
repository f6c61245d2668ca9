# Sourced by ./run and ./test: sets PYTHON to the first interpreter that is Python 3.11 or newer.
for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14 python; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        PYTHON=$candidate
        return 0
    fi
done
echo "Headway needs Python 3.11 or newer and found none: install it, or name it as in PYTHON=/path/to/python3.11 $0." >&2
exit 2
