#!/usr/bin/env python3
"""Compiles the CUDA C of every preset, plain and with residual and gate, by nvcc with warnings as errors.

Presets that share a shape are one kernel. Prints what nvcc says of each that fails, and how many there were; exit status 1 if one failed.

usage: compile_presets.py --headnorm build/dev/cli/headnorm --nvcc /usr/local/cuda/bin/nvcc [--targets sm_80,sm_90,sm_100]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

VARIANTS = {"plain": [], "residual + gate": ["--residual", "add", "--gate", "seednorm"]}
FLAGS = ["-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings"]


def run(command):
    return subprocess.run(command, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headnorm", required=True)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--targets", default="sm_80,sm_90,sm_100")
    options = parser.parse_args()
    presets = json.loads(run([options.headnorm, "presets", "--json"]).stdout)["presets"]
    compiled, failed = set(), 0
    with tempfile.TemporaryDirectory() as directory:
        source, output = os.path.join(directory, "kernel.cu"), os.path.join(directory, "kernel.o")
        for preset in [preset["name"] for preset in presets if preset["supported"]]:
            for variant, more in VARIANTS.items():
                for target in options.targets.split(","):
                    command = [options.headnorm, "generate", "--preset", preset, "--target", target, "--emit", "cuda"]
                    made = run([*command, "-o", source, "--json", *more])
                    if made.returncode != 0:
                        sys.exit(f"compile_presets: {preset}, {variant}, {target}: {made.stdout}{made.stderr}")
                    entry = json.loads(made.stdout)["entry"]
                    if entry in compiled:
                        continue
                    compiled.add(entry)
                    done = run([options.nvcc, f"-arch={target.split('+')[0]}", *FLAGS, "-c", source, "-o", output])
                    if done.returncode != 0 or done.stdout or done.stderr:
                        failed += 1
                        print(f"{preset}, {variant}, {target}:\n{done.stdout}{done.stderr}")
    print(f"{len(compiled)} kernels, {failed} with warnings or errors")
    sys.exit(1 if failed or not compiled else 0)


if __name__ == "__main__":
    main()
