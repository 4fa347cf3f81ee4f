#!/usr/bin/env python3
"""Does what docs/library.md tells a reader to do: builds its programs against an installation and runs its command lines, in order.

A block of the page is either ```sh, which is run, or the quotation of a file below examples/library, which tools/check_quotes.py
holds to that file. Any other block, and a file there that the page does not quote, is a failure.

usage: library_page_test.py ROOT PREFIX SCRATCH [VARIABLE=VALUE...]      (for the shell)
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

BLOCK = re.compile(r"(?:^`([^`\n]+)`\n\n)?^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
PROJECT = "examples/library"


def check_blocks(blocks, root):
    """What is wrong with the page, a line each."""
    wrong = [f"a block in {language or 'no language'} is neither a quotation nor a command line: {text.splitlines()[0]}"
             for path, language, text in blocks if not path and language != "sh"]
    quoted = {path for path, _, _ in blocks}
    files = {path.relative_to(root).as_posix() for path in (root / PROJECT).iterdir()}
    wrong += [f"{path} is not on the page" for path in sorted(files - quoted)]
    if not any(language == "sh" for _, language, _ in blocks):
        wrong.append("there is no command line on the page")
    return wrong


def run(commands, folder, environment):
    print(f"$ {commands}", flush=True)
    return subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, check=False).returncode


def main():
    root, prefix, scratch = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    blocks = BLOCK.findall((root / "docs/library.md").read_text(encoding="utf-8"))
    wrong = check_blocks(blocks, root)
    if wrong:
        print("\n".join(wrong))
        return 1
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(root / PROJECT, scratch)
    environment = {**os.environ, "PREFIX": str(prefix), "PATH": f"{prefix}/bin:{os.environ['PATH']}", "HOME": str(scratch),
                   **dict(argument.split("=", 1) for argument in sys.argv[4:])}
    for _, language, text in blocks:
        if language == "sh" and run(text, scratch, environment) != 0:
            print(f"FAILED: {text}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
