# Steps that tools/quickstart and tools/test share. Sourced; the working directory is the repository's root.

step() { printf '\n== %s\n' "$*"; }

# build_preset PRESET JOBS [TARGET...]: configures and builds (everything, if no target is named); the compiler's output is shown
# only if it fails. Further arguments of the configure step: the array configure_flags.
configure_flags=()
build_preset() {
  local preset=$1 jobs=$2 log="build/$1.log" targets=()
  shift 2
  if [[ $# -gt 0 ]]; then targets=(--target "$@"); fi
  mkdir -p build
  step "Building ($preset preset, $jobs jobs; log in $log)"
  if ! cmake --preset "$preset" "${configure_flags[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    echo "Configuring failed." >&2
    return 1
  fi
  if run_build "$log" --preset "$preset" -j "$jobs" "${targets[@]}"; then return 0; fi
  tail -n 60 "$log" >&2
  echo "Building failed; the whole log is $log." >&2
  return 1
}

# run_build LOG ARGUMENTS...: cmake --build, with one line of progress where there is a terminal.
run_build() {
  local log=$1
  shift
  if [[ ! -t 1 ]]; then
    cmake --build "$@" >>"$log" 2>&1
    return
  fi
  local status=0
  { NINJA_STATUS='[%f/%t] ' cmake --build "$@" 2>&1 || status=$?; echo "$status" >"$log.status"; } | tee -a "$log" | show_progress
  status=$(<"$log.status")
  rm -f "$log.status"
  return "$status"
}

# Rewrites one line of the terminal with the newest line of the input.
show_progress() {
  local line
  while IFS= read -r line; do
    if [[ "$line" == \[* ]]; then printf '\r\033[K%.100s' "$line"; fi
  done
  printf '\r\033[K'
}
