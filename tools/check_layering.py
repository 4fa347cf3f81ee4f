#!/usr/bin/env python3
"""Checks which directory includes what.

The rules are the two tables below: a directory of ours may include its own headers and those of the directories it lists, and a
library from outside may be included only where it is listed. Files, and rows of the table, that include each other in a circle
are refused too. Prints each breach as FILE:LINE: what and why; exit status 1 if there is any.

usage: check_layering.py [ROOT]
"""

import pathlib
import re
import sys

EVERYTHING = "*"

# directory (the longest that matches a file counts) -> directories it may include, each with all below it
INSIDE = {
    "cmake": [],
    "core": [],
    "emulator": [],
    "generator/program": ["core"],
    "generator/algorithm": ["core", "generator/program"],
    "generator/backend": ["core", "generator/program"],
    "generator/export": ["core", "runtime"],
    "generator": ["core"],
    "runtime": ["core"],
    "runtime/c_api/full": ["core", "generator", "runtime/c_api"],
    "tuner": ["core", "runtime"],
    "cli": EVERYTHING,
    "tuning_db": EVERYTHING,
    "bench": EVERYTHING,
    "tests": EVERYTHING,
    "examples": EVERYTHING,
}

# first part of the header's path -> directories that may include it
OUTSIDE = {
    "llvm": ["generator/backend"],
    "llvm-c": ["generator/backend"],
    "nlohmann": ["generator/export", "runtime", "tuner", "cli", "tests", "bench"],
    "sodium": ["core"],
    "zlib.h": ["generator/export"],
    "CLI": ["cli", "examples", "tuning_db"],
    "gtest": ["tests"],
    "gmock": ["tests"],
}

# The tuner and the exports see the interfaces of the runtime, not its parts.
INTERFACES_ONLY = {
    ("tuner", "runtime"): ["runtime", "runtime/database"],
    ("generator/export", "runtime"): ["runtime", "runtime/database"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SKIPPED = {"build", ".git"}


def layer_of(directory):
    """The row of INSIDE that a directory falls under, or None."""
    parts = directory.split("/")
    for length in range(len(parts), 0, -1):
        prefix = "/".join(parts[:length])
        if prefix in INSIDE:
            return prefix
    return None


def is_below(directory, ancestor):
    return directory == ancestor or directory.startswith(ancestor + "/")


def breach_inside(directory, target):
    """Why `directory` may not include a header of `target`, or None."""
    layer, allowed = layer_of(directory), INSIDE[layer_of(directory)]
    interfaces = INTERFACES_ONLY.get((layer, target.split("/")[0]))
    if interfaces is not None and target not in interfaces:
        return f"{layer} may include only the interfaces in {', '.join(interfaces)}"
    if allowed == EVERYTHING or is_below(target, layer) or any(is_below(target, name) for name in allowed):
        return None
    return f"{layer} may include only {', '.join([layer, *allowed])}"


def sources(root):
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.suffix in (".h", ".cpp") and not SKIPPED & set(relative.parts):
            yield path, relative


def find_circle(edges):
    """A list of nodes each of which includes the next and the last the first, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):]
        if node in done:
            return None
        path.append(node)
        for target in sorted(edges.get(node, ())):
            circle = visit(target)
            if circle:
                return circle
        path.pop()
        done.add(node)
        return None

    for start in sorted(edges):
        circle = visit(start)
        if circle:
            return circle
    return None


def check_include(root, directory, header, quoted):
    """(file of ours or None, breach or None)"""
    for candidate in (header, f"{directory}/{header}") if quoted else ():
        if (root / candidate).is_file():
            return candidate, breach_inside(directory, pathlib.PurePosixPath(candidate).parent.as_posix())
    library = header.split("/")[0]
    if library in OUTSIDE and not any(is_below(directory, name) for name in OUTSIDE[library]):
        return None, f"headers of {library} may be included only in {', '.join(OUTSIDE[library])}"
    if quoted and library in {name.split("/")[0] for name in INSIDE}:
        return None, "there is no such file"
    return None, None


def check_file(root, path, relative, edges):
    """The breaches in one file; adds what it includes to `edges`."""
    directory = relative.parent.as_posix()
    layer = layer_of(directory)
    if layer is None:
        return [f"{relative}:1: no layer is known for {directory}; add it to the table in tools/check_layering.py"]
    breaches = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target, breach = check_include(root, directory, match.group(2), match.group(1) == '"')
        if breach:
            breaches.append(f"{relative}:{number}: includes {match.group(2)}: {breach}")
        if target:
            edges["files"].setdefault(relative.as_posix(), set()).add(target)
            target_layer = layer_of(pathlib.PurePosixPath(target).parent.as_posix())
            if target_layer not in (None, layer):
                edges["directories"].setdefault(layer, set()).add(target_layer)
    return breaches


def check(root):
    breaches, edges, files = [], {"files": {}, "directories": {}}, 0
    for path, relative in sources(root):
        files += 1
        breaches += check_file(root, path, relative, edges)
    for kind, graph in edges.items():
        circle = find_circle(graph)
        if circle:
            breaches.append(f"{kind} include each other in a circle: " + " -> ".join([*circle, circle[0]]))
    return breaches, files


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    breaches, files = check(root)
    for breach in breaches:
        print(breach)
    print(f"check_layering: {files} files, {len(breaches)} breaches")
    return 1 if breaches or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
