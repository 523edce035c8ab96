#!/usr/bin/env bash
# Builds the wheel, and tests it on the newest Python, on 3.11 and on the one that is there. With arguments, runs them with the newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pins=xtask/requirements/python.txt built=$PWD/target/python
known='import pip, sys; v = sys.version_info; print("%d.%d" % v[:2]); sys.exit(not (3, 11) <= v[:2] <= (3, 13))'

declare -A pythons checks
for name in python3.13 python3.12 python3.11 python3; do
    [ "$name" != python3.12 ] || [ -z "${pythons[3.13]-}" ] || continue
    for python in "$name" "${PYENV_ROOT:-$HOME/.pyenv}/versions/${name#python}".*/bin/python3; do
        version=$("$python" -c "$known" 2>/dev/null) || continue
        pythons[$version]=$python
        [ $# -eq 0 ] && continue 2 || break 2
    done
    echo "$name with pip, and of a version with pins, is not there: skipped" >&2
done

# Debian's Python makes no environment with pip, but its own pip installs into one.
pip() { "${pythons[$version]}" -m pip --disable-pip-version-check --python "$built/$version" "$1" --quiet "${@:2}"; }

for version in "${!pythons[@]}"; do
    cmp --silent $pins "$built/$version/pins" && continue
    "${pythons[$version]}" -m venv --clear --without-pip "$built/$version"
    pip install --require-hashes --requirement $pins
    cp $pins "$built/$version/pins"
done
rm -rf "$built/wheels"
PATH=$built/$version/bin:$PATH pip wheel --no-deps --no-build-isolation --wheel-dir "$built/wheels" ./python
for version in "${!pythons[@]}"; do
    pip install --no-deps --force-reinstall "$built"/wheels/*.whl
done
[ $# -eq 0 ] || exec "$built/$version/bin/python" "$@"

du --bytes "$built"/wheels/*.whl
[ "$(cat "$built"/wheels/*.whl | wc --bytes)" -le 3000000 ] || { echo "the wheel is larger than 3 MB" >&2 && exit 1; }
for version in "${!pythons[@]}"; do
    "$built/$version/bin/python" -m pytest -c python/pyproject.toml -p no:cacheprovider python/tests >"$built/$version.log" 2>&1 &
    checks[$version]=$!
done
for version in "${!checks[@]}"; do
    wait "${checks[$version]}" || failed=$version
    echo "Python $version" && cat "$built/$version.log"
done
[ -z "${failed-}" ]
