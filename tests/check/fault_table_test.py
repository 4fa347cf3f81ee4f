"""Every test that docs/testing.md names is there: `Suite.Name` in its tables is a TEST, TEST_F or TEST_P of the sources."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def named_tests():
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return {name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row)}


def tests_in_sources():
    found = set()
    for path in (ROOT / "tests").rglob("*.cpp"):
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.add(f"{suite}.{name}")
    return found


def main():
    named = named_tests()
    missing = sorted(named - tests_in_sources())
    for name in missing:
        print(f"docs/testing.md names {name}, which is no test")
    if not named:
        print("docs/testing.md names no test")
    return 1 if missing or not named else 0


if __name__ == "__main__":
    sys.exit(main())
