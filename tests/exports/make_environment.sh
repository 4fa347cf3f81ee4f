#!/bin/sh
# A Python environment with the readers of requirements.txt: make_environment.sh PYTHON FOLDER. Exit status 77 where the package index
# cannot be reached; nothing is done where the environment is there already.
python=$1
folder=$2
list=$(dirname "$0")/requirements.txt
if cmp -s "$list" "$folder/installed.txt"; then exit 0; fi
rm -rf "$folder"
if ! "$python" -m venv "$folder"; then
  echo "SKIPPED: $python has no module venv; install python3-venv"
  exit 77
fi
if ! "$folder/bin/pip" install --quiet --no-deps --retries 1 --disable-pip-version-check -r "$list"; then
  echo "SKIPPED: the Python package index cannot be reached"
  exit 77
fi
cp "$list" "$folder/installed.txt"
