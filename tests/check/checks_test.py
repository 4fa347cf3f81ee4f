"""The checks in tools/ pass a clean tree and name what is wrong in a bad one: each case is a small tree made here."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
CLEAN = {"core/a.h": "#pragma once\n", "runtime/b.cpp": '#include "core/a.h"\n'}


def run_check(tool, files):
    """(exit status, output) of a check over a tree of these files; words that the check must find are joined here with '~'."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("~", ""), encoding="utf-8")
        command = [str(TOOLS / tool), folder]
        if tool.endswith(".py"):
            command.insert(0, sys.executable)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Layering(unittest.TestCase):
    def expect_breach(self, files, *texts):
        status, output = run_check("check_layering.py", {**CLEAN, **files})
        self.assertEqual(status, 1, output)
        for text in texts:
            self.assertIn(text, output)

    def test_clean(self):
        status, output = run_check("check_layering.py", CLEAN)
        self.assertEqual(status, 0, output)

    def test_empty_tree_is_no_pass(self):
        self.assertEqual(run_check("check_layering.py", {})[0], 1)

    def test_upward_include(self):
        self.expect_breach({"core/c.cpp": '\n#include "runtime/d.h"\n', "runtime/d.h": ""}, "core/c.cpp:2", "core may include only core")

    def test_llvm_outside_its_backend(self):
        self.expect_breach({"runtime/c.cpp": '#include "llvm/IR/Module.h"\n'}, "runtime/c.cpp:1", "generator/backend")

    def test_part_of_the_runtime_in_the_tuner(self):
        self.expect_breach({"tuner/t.cpp": '#include "runtime/host/h.h"\n', "runtime/host/h.h": ""}, "interfaces")

    def test_interface_of_the_runtime_in_the_tuner(self):
        files = {"tuner/t.cpp": '#include "runtime/database/d.h"\n', "runtime/database/d.h": ""}
        status, output = run_check("check_layering.py", {**CLEAN, **files})
        self.assertEqual(status, 0, output)

    def test_circle_of_files(self):
        files = {"core/c.h": '#include "core/d.h"\n', "core/d.h": '#include "core/c.h"\n'}
        self.expect_breach(files, "circle: core/c.h -> core/d.h -> core/c.h")

    def test_circle_of_directories(self):
        files = {"cli/c.h": '#include "tests/t.h"\n', "tests/t.h": '#include "cli/d.h"\n', "cli/d.h": ""}
        self.expect_breach(files, "directories include each other in a circle")

    def test_unknown_directory(self):
        self.expect_breach({"other/o.h": ""}, "no layer is known for other")

    def test_missing_file(self):
        self.expect_breach({"runtime/c.cpp": '#include "core/absent.h"\n'}, "there is no such file")


class Quotes(unittest.TestCase):
    PAGE = "`core/a.cpp`\n\n```cpp\n  int b = 2;\n...\n  return a;\n```\n"

    def test_quoted_lines_that_are_there(self):
        files = {"docs/adding-a-variant.md": self.PAGE, "core/a.cpp": "int a = 1;\n  int b = 2;\n  // more\n  return a;\n"}
        self.assertEqual(run_check("check_quotes.py", files)[0], 0)

    def test_quoted_lines_that_have_changed(self):
        files = {"docs/adding-a-variant.md": self.PAGE, "core/a.cpp": "  int b = 3;\n  return a;\n"}
        status, output = run_check("check_quotes.py", files)
        self.assertEqual(status, 1, output)
        self.assertIn("core/a.cpp: int b = 2;", output)
        self.assertNotIn("return a", output)

    def test_names_that_select_no_test(self):
        page = self.PAGE + "\n`ctest --preset dev -R 'Random|random'`\n"
        files = {
            "docs/adding-a-variant.md": page,
            "core/a.cpp": "  int b = 2;\n  return a;\n",
            "tests/numerics/a_test.cpp": "TEST(RandomHost, IsRight) {}\n",
        }
        status, output = run_check("check_quotes.py", files)
        self.assertEqual(status, 1, output)
        self.assertIn("by random, which", output)
        self.assertNotIn("by Random", output)

    def test_a_page_without_quotes_is_no_pass(self):
        self.assertEqual(run_check("check_quotes.py", {"docs/adding-a-variant.md": "# Adding\n"})[0], 1)


class Words(unittest.TestCase):
    def expect_found(self, text, what):
        status, output = run_check("check_words", {**CLEAN, "docs/x.md": f"first\n{text}\n"})
        self.assertEqual(status, 1, output)
        self.assertIn(what, output)
        self.assertIn("docs/x.md:2", output)

    def test_clean(self):
        files = {**CLEAN, "docs/x.md": "a/home/b, ~/.cache/headnorm, $HOME/x, 4/mnt\n======== title\n"}
        status, output = run_check("check_words", files)
        self.assertEqual(status, 0, output)

    def test_machine_path(self):
        self.expect_found("see /h~ome/someone/notes", "path of one machine")

    def test_left_undone(self):
        self.expect_found("// T~ODO: later", "work left to do")

    def test_merge_marker(self):
        self.expect_found("<<<<~<<< HEAD", "unfinished merge")
        self.expect_found("=====~==", "unfinished merge")


class Format(unittest.TestCase):
    def test_finds_a_difference(self):
        style = {".clang-format": "BasedOnStyle: Google\n"}
        status, output = run_check("check_format", {**style, "core/a.cpp": "int   x;\n"})
        if status == 77:
            self.skipTest(output)
        self.assertEqual(status, 1, output)
        self.assertIn("core/a.cpp:1", output)
        self.assertEqual(run_check("check_format", {**style, "core/a.cpp": "int x;\n"})[0], 0)


if __name__ == "__main__":
    unittest.main()
