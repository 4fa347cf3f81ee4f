"""What the tests of tools/gpu_acceptance share: its modules, a scratch folder, and a headnorm that answers as it is told."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
FAKE = pathlib.Path(__file__).resolve().parent / "fake_headnorm.py"
COMMAND = os.environ.get("HEADNORM_COMMAND", "")  # the real one
EMULATOR = os.environ.get("HEADNORM_EMULATOR", "")  # the stand-in libcuda
os.environ["HEADNORM_TABLES"] = str(ROOT / "none")  # default schedules, whatever the shipped tables say


class ScratchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, name, text):
        """A program of these lines of Python."""
        path = self.folder / name
        path.write_text(f"#!{sys.executable} -IS\n{text}", encoding="utf-8")
        path.chmod(0o755)
        return path

    def fake_headnorm(self, **behaviour):
        """A headnorm that does as fake_headnorm.py says for these."""
        settings = self.folder / "fake.json"
        settings.write_text(json.dumps(behaviour), encoding="utf-8")
        return self.script("headnorm", f"import runpy, sys\nsys.argv.insert(1, {str(settings)!r})\n"
                                       f"runpy.run_path({str(FAKE)!r}, run_name='__main__')\n")
