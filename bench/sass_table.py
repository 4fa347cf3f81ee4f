#!/usr/bin/env python3
"""What ptxas makes of the kernels of every preset: registers, spills, and the SASS instructions with the widths of their accesses.

Needs ptxas (CUDA toolkit) in PATH or --ptxas, and nvdisasm: in PATH, by --nvdisasm, or from the PyPI package nvidia-cuda-nvdisasm.
Nothing here is a measurement of time. Writes a Markdown table to standard output, with registers, bytes spilled and SASS instructions
of each target and the accesses of the first one; with --json FILE all of it as JSON.

    bench/sass_table.py --headnorm build/release/cli/headnorm --targets sm_80,sm_90,sm_100,sm_120
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile

VARIANTS = {
    "plain": [],
    "residual + gate": ["--residual", "add", "--gate", "seednorm"],
}
WIDTHS = {"": 4, "64": 8, "128": 16, "256": 32, "U16": 2, "U8": 1, "S16": 2, "S8": 1}


def find_nvdisasm():
    found = shutil.which("nvdisasm")
    if found:
        return found
    for directory in site.getsitepackages() + [site.getusersitepackages()]:
        for path in glob.glob(os.path.join(directory, "nvidia", "**", "bin", "nvdisasm"), recursive=True):
            return path
    return None


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"sass_table: {' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    return done


def access_width(opcode):
    """Bytes a thread moves with a global access such as LDG.E.128.CONSTANT."""
    for part in opcode.split(".")[1:]:
        if part in WIDTHS and part:
            return WIDTHS[part]
    return 4


def count_sass(text):
    """Instructions of a disassembly, without the padding after the last one."""
    opcodes = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", text, re.M)
    while opcodes and opcodes[-1] in ("NOP", "BRA"):
        opcodes.pop()
    counts = collections.Counter()
    widths = {"LDG": collections.Counter(), "STG": collections.Counter()}
    for opcode in opcodes:
        base = opcode.split(".")[0]
        counts[base] += 1
        if base in widths:
            widths[base][access_width(opcode)] += 1
    return len(opcodes), counts, widths


def examine(tools, preset, options, target, directory, known):
    """The row of one kernel; `known` has those of the kernels before, by spec and target: presets share shapes."""
    ptx, cubin = os.path.join(directory, "kernel.ptx"), os.path.join(directory, "kernel.cubin")
    made = json.loads(
        run([tools.headnorm, "generate", "--preset", preset, "--target", target, "--emit", "ptx", "-o", ptx, "--json", *options]).stdout
    )
    key = (made["spec"], target)
    if key in known:
        return known[key] | {"preset": preset}
    arch = tools.arch or target.split("+")[0]
    log = run([tools.ptxas, "-v", f"-arch={arch}", ptx, "-o", cubin]).stderr
    registers = int(re.search(r"Used (\d+) registers", log).group(1))
    spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", log))
    instructions, counts, widths = count_sass(run([tools.nvdisasm, cubin]).stdout)
    known[key] = {
        "preset": preset,
        "target": target,
        "spec": made["spec"],
        "schedule": made["schedule"],
        "registers": registers,
        "spill_bytes": spilled,
        "instructions": instructions,
        "loads": {str(width): n for width, n in sorted(widths["LDG"].items())},
        "stores": {str(width): n for width, n in sorted(widths["STG"].items())},
        "packed": sum(counts[base] for base in ("FADD2", "FMUL2", "FFMA2")),
        "shuffles": counts["SHFL"],
        "barriers": counts["BAR"],
    }
    return known[key]


def accesses(widths):
    return ", ".join(f"{n} × {width} B" for width, n in widths.items()) or "none"


def print_table(rows, targets):
    """A line for each kernel (presets of one shape have one), a column for each target."""
    kernels = {}
    for row in rows:
        names, by_target = kernels.setdefault((row["variant"], row["spec"]), ([], {}))
        if row["preset"] not in names:
            names.append(row["preset"])
        by_target[row["target"]] = row
    print("| preset | kernel | " + " | ".join(targets) + " | loads | stores | shuffles | barriers |")
    print("| --- | --- | " + "---: | " * len(targets) + "--- | --- | ---: | ---: |")
    for (variant, _), (names, by_target) in kernels.items():
        cells = [f"{r['registers']} / {r['spill_bytes']} / {r['instructions']}" for r in (by_target[t] for t in targets)]
        first = by_target[targets[0]]
        name = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        print(
            f"| {name} | {variant} | {' | '.join(cells)} | {accesses(first['loads'])} | {accesses(first['stores'])} | "
            f"{first['shuffles']} | {first['barriers']} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headnorm", default="build/release/cli/headnorm", help="the command to generate with")
    parser.add_argument("--targets", default="sm_80,sm_90,sm_100,sm_120")
    parser.add_argument("--presets", help="comma separated (all)")
    parser.add_argument("--arch", help="assemble for this processor, which runs the PTX of all the targets, e.g. sm_100 (each target's own)")
    parser.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--nvdisasm", default=find_nvdisasm())
    parser.add_argument("--json", help="also write everything to this file")
    tools = parser.parse_args()
    if not os.access(tools.ptxas, os.X_OK):
        sys.exit("sass_table: there is no ptxas: install the CUDA toolkit, or name it with --ptxas")
    if tools.nvdisasm is None:
        sys.exit("sass_table: there is no nvdisasm: pip install nvidia-cuda-nvdisasm, or name it with --nvdisasm")
    presets = tools.presets.split(",") if tools.presets else None
    if presets is None:
        listed = json.loads(run([tools.headnorm, "presets", "--json"]).stdout)["presets"]
        presets = [preset["name"] for preset in listed if preset["supported"]]

    rows, known = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for variant, options in VARIANTS.items():
            for preset in presets:
                for target in tools.targets.split(","):
                    rows.append({"variant": variant} | examine(tools, preset, options, target, directory, known))
                if sys.stderr.isatty():
                    print(f"\r{len(rows)} kernels", end="", file=sys.stderr)
    print_table(rows, tools.targets.split(","))
    if tools.json:
        with open(tools.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
