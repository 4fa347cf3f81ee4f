#!/usr/bin/env python3
"""SASS of both compilers for the kernels of every preset: what LLVM's PTX comes to against NVRTC's PTX of the CUDA C of the same plan.

Needs what sass_table.py needs, and NVRTC (HEADNORM_NVRTC names its library). Nothing here is a measurement of time. Writes a Markdown
table to standard output: SASS instructions by LLVM / by NVRTC, and their ratio, for each kernel and target; exit status 1 where LLVM's
is longer than --limit allows.

    bench/sass_compare.py --headnorm build/release/cli/headnorm --targets sm_80,sm_90,sm_100
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import sass_table


def length(tools, backend, preset, options, target, directory):
    """SASS instructions of one kernel."""
    ptx, cubin = os.path.join(directory, "kernel.ptx"), os.path.join(directory, "kernel.cubin")
    command = [tools.headnorm, "generate", "--preset", preset, "--target", target, "--emit", "ptx", "--backend", backend]
    sass_table.run([*command, "-o", ptx, *options])
    sass_table.run([tools.ptxas, f"-arch={target.split('+')[0]}", ptx, "-o", cubin])
    return sass_table.count_sass(sass_table.run([tools.nvdisasm, cubin]).stdout)[0]


def print_table(kernels, targets):
    print("| preset | kernel | " + " | ".join(f"{target}: LLVM / NVRTC" for target in targets) + " |")
    print("| --- | --- |" + " ---: |" * len(targets))
    for (variant, _), (names, by_target) in kernels.items():
        cells = []
        for target in targets:
            llvm, nvrtc = by_target[target]
            cells.append(f"{llvm} / {nvrtc} ({llvm / nvrtc:.2f})")
        name = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        print(f"| {name} | {variant} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headnorm", default="build/release/cli/headnorm", help="the command to generate with")
    parser.add_argument("--targets", default="sm_80,sm_90,sm_100")
    parser.add_argument("--presets", help="comma separated (all)")
    parser.add_argument("--options", default="", help="more for generate, e.g. \"--schedule lanes=32\"")
    parser.add_argument("--limit", type=float, default=1.05, help="largest ratio that is right (1.05)")
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--nvdisasm", default=sass_table.find_nvdisasm())
    tools = parser.parse_args()
    if not os.access(tools.ptxas, os.X_OK):
        sys.exit("sass_compare: there is no ptxas: install the CUDA toolkit, or name it with --ptxas")
    if tools.nvdisasm is None:
        sys.exit("sass_compare: there is no nvdisasm: pip install nvidia-cuda-nvdisasm, or name it with --nvdisasm")
    presets = tools.presets.split(",") if tools.presets else None
    if presets is None:
        listed = json.loads(sass_table.run([tools.headnorm, "presets", "--json"]).stdout)["presets"]
        presets = [preset["name"] for preset in listed if preset["supported"]]

    targets, kernels, longer = tools.targets.split(","), {}, []
    with tempfile.TemporaryDirectory() as directory:
        for variant, options in sass_table.VARIANTS.items():
            for preset in presets:
                shape = json.loads(
                    sass_table.run([tools.headnorm, "explain", "--preset", preset, "--target", targets[0], "--json", *options]).stdout
                )["spec"]
                names, by_target = kernels.setdefault((variant, shape), ([], {}))
                names.append(preset)
                if len(names) > 1:
                    continue  # presets share shapes
                for target in targets:
                    more = options + tools.options.split()
                    lengths = tuple(length(tools, b, preset, more, target, directory) for b in ("llvm", "nvrtc"))
                    by_target[target] = lengths
                    if lengths[0] > tools.limit * lengths[1]:
                        longer.append(f"{preset}, {variant}, {target}: {lengths[0]} against {lengths[1]}")
                if sys.stderr.isatty():
                    print(f"\r{len(kernels)} kernels", end="", file=sys.stderr)
    print_table(kernels, targets)
    for line in longer:
        print(f"sass_compare: longer than {tools.limit:.2f} of NVRTC's: {line}", file=sys.stderr)
    sys.exit(1 if longer else 0)


if __name__ == "__main__":
    main()
