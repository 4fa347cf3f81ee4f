#!/usr/bin/env python3
"""Checks that the code which pages of docs/ quote stands in the files that they name.

A line `path` alone names the file of the code block that follows. A block is cut at lines of three dots; each piece must be in the
file, line by line. Each name in ctest's `-R '...|...'` must be part of a test's name. Prints each piece and name that is not; exit
status 1 if there is any, or if a page quotes nothing.

usage: check_quotes.py [ROOT]
"""

import pathlib
import re
import sys

PAGES = ("docs/adding-a-variant.md", "docs/library.md")
QUOTE = re.compile(r"^`([^`\n]+)`\n\n```\w*\n(.*?)\n```$", re.MULTILINE | re.DOTALL)

SELECTION = re.compile(r"ctest [^`\n]*-R '([^']+)'")
TEST = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", re.MULTILINE)


def names_without_test(root, page):
    """Names by which a page selects tests, and no test has."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((root / "tests").rglob("*.cpp"))]
    tests = [".".join(test) for source in sources for test in TEST.findall(source)]
    selections = SELECTION.findall((root / page).read_text(encoding="utf-8"))
    names = [name for selection in selections for name in selection.split("|")]
    return [name for name in names if not any(name in test for test in tests)]


def missing_quotes(root, page):
    """(number of pieces, list of 'path: first line' of those that are not in their file)."""
    count, missing = 0, []
    for path, block in QUOTE.findall((root / page).read_text(encoding="utf-8")):
        source = root / path
        text = source.read_text(encoding="utf-8") if source.is_file() else ""
        for piece in block.split("\n...\n"):
            count += 1
            if f"\n{piece}\n" not in f"\n{text}\n":
                missing.append(f"{path}: {piece.splitlines()[0].strip()}")
    return count, missing


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    pages = [page for page in PAGES if (root / page).is_file()]
    status = 0 if pages else 1
    for page in pages:
        count, missing = missing_quotes(root, page)
        names = names_without_test(root, page)
        for piece in missing:
            print(f"{page} quotes what is not in {piece}")
        for name in names:
            print(f"{page} selects tests by {name}, which is in no test's name")
        print(f"check_quotes: {page}: {count} pieces of code")
        if missing or names or count == 0:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
