# Sourced by the checks. The working directory is the root of the tree that is checked.

# tracked_files [PATTERN...]: the files under version control, one a line; in a tree without git (an unpacked archive), all files but
# those below build/. The patterns are those of git ls-files.
tracked_files() {
  if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -c safe.directory='*' ls-files -- "$@"
    return
  fi
  local pattern tests=()
  for pattern in "${@:-*}"; do tests+=(-o -path "./$pattern"); done
  find . \( -path ./build -o -path ./.git \) -prune -o -type f \( "${tests[@]:1}" \) -print | sed 's|^\./||'
}
