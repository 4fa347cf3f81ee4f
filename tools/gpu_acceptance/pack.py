"""The pack: this script, the portable command and the emulator in one folder, for a machine that has nothing of ours."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from .results import EXIT_ENVIRONMENT, EXIT_RIGHT, EXIT_USAGE

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent  # of a pack; in the repository it is tools/
MOST_BYTES = 60_000_000
PRESET = "portable"
BINARY, EMULATOR = pathlib.Path("bin/headnorm"), pathlib.Path("emulator/driver/libcuda.so.1")


# Parts of the C library.
ALLOWED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


def foreign_libraries(path):
    """Shared libraries that a program needs and that a machine may lack; and the version of the C library that it asks for."""
    def read(option):
        done = subprocess.run(["readelf", option, "--wide", path], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", read("--dynamic"))
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", read("--version-info"))
    newest = max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))
    return sorted(set(needed) - ALLOWED) if needed else ["unknown"], f"{newest[0]}.{newest[1]}"


def find_binary():
    """That of the pack, else of a build."""
    builds = [TOP.parent / "build" / preset / "cli" / "headnorm" for preset in (PRESET, "release", "dev")]
    return next((path for path in [TOP / BINARY, *builds] if path.exists()), None)


def _build(root):
    flags = ["-D", "HEADNORM_TESTS=OFF"]
    for words in (["cmake", "--preset", PRESET, *flags], ["cmake", "--build", "--preset", PRESET]):
        if subprocess.run(words, cwd=root, check=False, stdout=sys.stderr).returncode != 0:
            return False
    return True


def gather(build, root, out):
    """Lays the files of a build down in a new folder; returns their size together."""
    for source, place in ((build / "cli" / "headnorm", BINARY), (build / EMULATOR, EMULATOR), (root / "LICENSE", "LICENSE"),
                          (root / "NOTICE", "NOTICE"), (root / "tools" / "gpu-acceptance", "gpu-acceptance")):
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, out / place)
    (out / HERE.name).mkdir()
    for module in sorted(HERE.glob("*.py")):
        shutil.copy(module, out / HERE.name)
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def make(out):
    root = TOP.parent
    if not (root / "CMakePresets.json").exists():
        print("error: a pack makes no pack\nremedy: run --pack in a checkout of headnorm", file=sys.stderr)
        return EXIT_USAGE
    if out.exists():
        print(f"error: {out} is there already\nremedy: remove it, or name another folder", file=sys.stderr)
        return EXIT_USAGE
    if not _build(root):
        print("error: the portable command was not built\nremedy: the compiler's messages are above; tools/test --help says what a build "
              "needs", file=sys.stderr)
        return EXIT_ENVIRONMENT
    build = root / "build" / PRESET
    libc = set()
    for program in (build / "cli" / "headnorm", build / EMULATOR):
        foreign, version = foreign_libraries(program)
        libc.add(version)
        if foreign:
            print(f"error: {program} needs {', '.join(foreign)}, which another machine may lack\nremedy: install the static libraries "
                  "that docs/dependencies.md lists, and remove the build", file=sys.stderr)
            return EXIT_ENVIRONMENT
    beside = out.with_name(f"{out.name}.part-{os.getpid()}")
    try:
        size = gather(build, root, beside)
        os.rename(beside, out)
    except OSError as error:
        print(f"error: {out} cannot be written: {error}\nremedy: free space, or name another place", file=sys.stderr)
        return EXIT_ENVIRONMENT
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    if size >= MOST_BYTES:
        print(f"error: {out} has {size} bytes; the limit is {MOST_BYTES}", file=sys.stderr)
        return EXIT_ENVIRONMENT
    newest = max(libc, key=lambda version: [int(part) for part in version.split(".")])
    print(f"{out}: {size / 1e6:.1f} MB; it needs glibc {newest} or later. Copy it to the machine with the GPU and run {out.name}/gpu-acceptance "
          "there.")
    return EXIT_RIGHT
