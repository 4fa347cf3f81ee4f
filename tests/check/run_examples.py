#!/usr/bin/env python3
"""Runs the commands that a page shows, in order, in one scratch directory.

A block that begins with ```console holds commands, each behind "$ ", and below each what it prints: a line that is all of dots stands
for any lines, and without any line nothing is compared. Names behind "console" are Python packages that the block needs: where one is
missing, the block is passed over, and said so. Other files that a command needs are those of blocks that begin with ```LANGUAGE NAME.

usage: run_examples.py PAGE FOLDER_OF_COMMANDS... (put before PATH; the first "python" among them runs)
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOTS = re.compile(r"^\.\.\.+$")


def is_whole(command):
    """Whether its quotes are closed and no line is to follow."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\")


def commands_of(block):
    """[(command, [lines that it prints])]; a command goes on behind a backslash and within quotes."""
    commands, lines = [], iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while not is_whole(command):
                command += "\n" + next(lines)
            commands.append((command, []))
        else:
            commands[-1][1].append(line)
    return commands


def fits(shown, printed):
    pattern = "".join(r"(?:.*\n)*" if DOTS.match(line) else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, printed) is not None


def has_packages(packages, environment):
    code = "; ".join(f"import {package}" for package in packages)
    return subprocess.run(["bash", "-c", f"python -c '{code}'"], env=environment, capture_output=True, check=False).returncode == 0


def run_page(page, scratch, environment):
    """(number of commands that ran, packages that were missing)"""
    count, missing = 0, []
    for language, rest, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        words = rest.split()
        if language != "console":
            if words:
                pathlib.Path(scratch, words[0]).write_text(block, encoding="utf-8")
            continue
        if words and not has_packages(words, environment):
            missing += words
            continue
        for command, shown in commands_of(block):
            done = subprocess.run(["bash", "-ec", command], cwd=scratch, env=environment, capture_output=True, text=True, check=False)
            count += 1
            if done.returncode != 0:
                sys.exit(f"{page}: exit status {done.returncode} of: {command}\n{done.stdout}{done.stderr}")
            if shown and not fits(shown, done.stdout):
                sys.exit(f"{page}: {command}\nprints\n{done.stdout}and not\n" + "\n".join(shown))
    return count, missing


def main():
    page = pathlib.Path(sys.argv[1]).resolve()
    folders = [str(pathlib.Path(folder).resolve()) for folder in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as scratch:
        path = os.pathsep.join([*folders, os.path.dirname(sys.executable), os.environ.get("PATH", "")])
        home = os.path.join(scratch, "home")
        os.mkdir(home)
        count, missing = run_page(page, scratch, {"PATH": path, "HOME": home})
    if count == 0:
        sys.exit(f"{page}: no command")
    print(f"{count} commands ran" + (f"; passed over for want of {', '.join(missing)}" if missing else ""))


main()
