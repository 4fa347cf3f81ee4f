# What headnorm needs to be built and tested, how each need is recognised, and how what is missing gets installed.
# Sourced by tools/quickstart and tools/test; needs nothing but bash and the standard commands of a Debian system.

# One need a line: group | Debian 12 package | probe that succeeds when the need is met | reason.
# Groups: build (everything), llvm (all but the runtime-only configuration), test, check (the checks of sources).
headnorm_needs='
build | g++              | has_command g++                            | C++20 compiler, version 12 or later; brings binutils
build | cmake            | has_cmake 3.25                             | configures the build
build | ninja-build      | has_command ninja                          | builds
build | libfmt-dev       | has_header fmt/format.h                    | formats text; used header-only
build | nlohmann-json3-dev | has_header nlohmann/json.hpp             | reads and writes the records of the database
build | libsodium-dev    | has_header sodium/crypto_hash_sha256.h     | SHA-256 of artifacts and keys; linked statically
llvm  | llvm-22-dev      | has_llvm 22.1                              | generates PTX and host code; linked statically
llvm  | libzstd-dev      | has_header zstd.h                          | the static LLVM libraries are linked with it
llvm  | zlib1g-dev       | has_header zlib.h                          | the static LLVM libraries are linked with it
llvm  | libcli11-dev     | has_header CLI/CLI.hpp                     | command line
test  | libgtest-dev     | has_header gtest/gtest.h                   | tests
test  | libgmock-dev     | has_header gmock/gmock.h                   | tests
test  | g++-aarch64-linux-gnu | has_command aarch64-linux-gnu-g++     | builds the runtime for the tests of aarch64 kernels
test  | qemu-user        | has_qemu_aarch64                        | runs them
test  | python3-venv     | has_python_venv                           | readers of exports are installed into a folder of the build
test  | binutils         | has_command readelf                        | tests look into what was linked
test  | pkgconf          | has_command pkg-config                     | tests use the installed package through it
test  | dpkg-dev         | has_command dpkg-shlibdeps                 | finds what the .deb depends on
check | clang-format-14  | has_clang_format 14                        | checks the format of sources
check | python3          | has_command python3                        | runs the check of the layers
check | git              | has_command git                            | lists the files under version control
'

has_command() { command -v "$1" >/dev/null 2>&1; }

has_header() { echo "#include <$1>" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

has_python_venv() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }

has_qemu_aarch64() { has_command qemu-aarch64 || has_command qemu-aarch64-static; }

at_least() { [[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" == "$1" ]]; }

has_cmake() {
  has_command cmake && at_least "$1" "$(cmake --version | sed -n '1s/[^0-9]*//p')"
}

has_clang_format() {
  has_command "clang-format-$1" || { has_command clang-format && [[ "$(clang-format --version)" == *"version $1."* ]]; }
}

# LLVM where CMake looks for it: LLVM_DIR, CMAKE_PREFIX_PATH, then Debian's places.
has_llvm() {
  local folder prefixes="${CMAKE_PREFIX_PATH:-}"
  local folders=("${LLVM_DIR:-}")
  for folder in ${prefixes//[:;]/ } "/usr/lib/llvm-${1%%.*}" /usr/local /usr; do folders+=("$folder/lib/cmake/llvm"); done
  for folder in "${folders[@]}"; do
    if grep -qs "PACKAGE_VERSION \"$1\\." "$folder/LLVMConfigVersion.cmake"; then return 0; fi
  done
  return 1
}

trim() { sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$1"; }

# missing_packages GROUP...: prints "package | reason" for every need of these groups that is not met.
missing_packages() {
  local group package probe reason
  while IFS='|' read -r group package probe reason; do
    group=$(trim "$group")
    if [[ -z "$group" || " $* " != *" $group "* ]]; then continue; fi
    if ! eval "$(trim "$probe")"; then echo "$(trim "$package") | $(trim "$reason")"; fi
  done <<<"$headnorm_needs"
}

explain_missing() {
  echo "headnorm needs these Debian 12 packages, or their like:" >&2
  sed 's/^/  /; s/ | /: /' <<<"$1" >&2
}

# ensure_packages install|report GROUP...: installs what is missing (install), or says what is and fails (report).
ensure_packages() {
  local mode=$1 missing
  shift
  missing=$(missing_packages "$@")
  if [[ -z "$missing" ]]; then return 0; fi
  if [[ "$mode" == report ]]; then
    explain_missing "$missing"
    echo "Install them, or run again without --no-install." >&2
    return 3
  fi
  install_packages "$missing" || return 3
  missing=$(missing_packages "$@")
  if [[ -z "$missing" ]]; then return 0; fi
  explain_missing "$missing"
  echo "They were installed, but what they bring was still not found." >&2
  return 3
}

install_packages() {
  local missing=$1 root=()
  if ! has_command apt-get; then
    explain_missing "$missing"
    echo "This system has no apt-get: install them with its own package manager, then run again." >&2
    return 1
  fi
  if [[ "$(id -u)" -ne 0 ]]; then
    if ! has_command sudo; then
      explain_missing "$missing"
      echo "Installing needs root and there is no sudo: ask whoever keeps this machine, then run again." >&2
      return 1
    fi
    root=(sudo)
  fi
  local packages
  mapfile -t packages < <(sed 's/ |.*//' <<<"$missing")
  echo "Installing: ${packages[*]}"
  "${root[@]}" apt-get update -q || echo "apt-get update failed; going on with the lists that are there." >&2
  if ! "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"; then
    explain_missing "$missing"
    echo "apt-get could not install them; its message is above. llvm-22-dev is in Debian 12's security archive" \
      "(suite bookworm-security): other systems need a source of LLVM 22.1 of their own." >&2
    return 1
  fi
}
