# Steps that tools/quickstart and tools/test share. Sourced; the working directory is the repository's root.

step() { printf '\n== %s\n' "$*"; }

# build_preset PRESET JOBS: configures and builds; the compiler's output is shown only if it fails.
build_preset() {
  local preset=$1 jobs=$2 log="build/$1.log"
  mkdir -p build
  step "Building ($preset preset, $jobs jobs; log in $log)"
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    echo "Configuring failed." >&2
    return 1
  fi
  if [[ -t 1 ]]; then
    NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -j "$jobs" 2>&1 | tee -a "$log" | show_progress
    [[ ${PIPESTATUS[0]} -eq 0 ]] && return 0
  else
    cmake --build --preset "$preset" -j "$jobs" >>"$log" 2>&1 && return 0
  fi
  tail -n 60 "$log" >&2
  echo "Building failed; the whole log is $log." >&2
  return 1
}

# Rewrites one line of the terminal with the newest line of the input.
show_progress() {
  local line
  while IFS= read -r line; do
    if [[ "$line" == \[* ]]; then printf '\r\033[K%.100s' "$line"; fi
  done
  printf '\r\033[K'
}
