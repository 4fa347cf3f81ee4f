"""tools/gpu-acceptance with the real command on an emulated GPU: the same phases; a wrong result of it is a failure; the kernels
that it hands to other programs, launched through the driver."""

import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

from support import COMMAND, EMULATOR, ROOT, ScratchTest

from gpu_acceptance import command, cuda_launch, npy, pack

SCRIPT = ROOT / "tools" / "gpu-acceptance"

# Runs the real command, then changes y's first element where it ran "here", on the device that is looked at.
TAMPER = """
import pathlib, subprocess, sys
code = subprocess.run([{command!r}, *sys.argv[1:]]).returncode
for word, value in zip(sys.argv, sys.argv[1:]):
    if word == "--output" and pathlib.Path(value).parent.name == "here":
        content = bytearray(pathlib.Path(value).read_bytes())
        content[-2] ^= 2
        pathlib.Path(value).write_bytes(content)
sys.exit(code)
"""


class QuickTest(ScratchTest):
    def accept(self, script, *words):
        out = self.folder / "out"
        done = subprocess.run([sys.executable, script, "--device", "emulator:h200", "--quick", "--out", out, *words], capture_output=True,
                              text=True, check=False, timeout=250)
        return done, json.loads((out / "report.json").read_text(encoding="utf-8")), out

    def test_all_phases_run_or_say_why_not(self):
        done, report, out = self.accept(SCRIPT, "--headnorm", COMMAND, "--budget", "40")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        states = {phase["name"]: phase["state"] for phase in report["phases"]}
        self.assertEqual(list(states), ["machine", "verify", "emulator", "sanitizer", "copy", "tune", "peers"])
        for name in ("sanitizer", "copy", "peers"):
            self.assertEqual(states[name], "skipped")
        for name in ("machine", "verify", "tune"):
            self.assertEqual(states[name], "passed", done.stdout)
        phases = {phase["name"]: phase["data"] for phase in report["phases"]}
        self.assertGreater(phases["emulator"]["elements"], 0)
        self.assertEqual(phases["emulator"]["unequal"], 0)
        self.assertEqual(phases["tune"]["results"][0]["evidence"], "emulated")
        self.assertEqual(len(list((out / "db" / "records").glob("*.json"))), 1)
        self.assertIn("without sanitizer, copy, peers", (out / "report.md").read_text(encoding="utf-8"))

    def test_a_result_that_was_changed_is_a_failure(self):
        tampered = self.script("headnorm", TAMPER.format(command=COMMAND))
        done, report, _ = self.accept(SCRIPT, "--headnorm", tampered, "--only", "emulator")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("2 ulp of bf16 from the emulator's", "".join(report["phases"][1]["failures"]))

    def test_a_pack_needs_nothing_of_the_checkout(self):
        build = self.folder / "build"
        for source, place in ((COMMAND, "cli/headnorm"), (EMULATOR, pack.EMULATOR)):
            (build / place).parent.mkdir(parents=True, exist_ok=True)
            (build / place).symlink_to(source)
        place = self.folder / "pack"
        pack.gather(build, ROOT, place)
        shutil.rmtree(build)
        done, report, _ = self.accept(place / "gpu-acceptance", "--only", "emulator")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(report["phases"][1]["state"], "passed")
        self.assertFalse(list(place.rglob("__pycache__")))

    @unittest.skipUnless(shutil.which("readelf"), "readelf is not installed")
    def test_libraries_that_another_machine_may_lack_are_named(self):
        foreign, version = pack.foreign_libraries(COMMAND)
        self.assertIn("libstdc++.so.6", foreign)  # of a build that is not portable
        self.assertNotIn("libc.so.6", foreign)
        self.assertRegex(version, r"^2\.\d+$")
        self.assertEqual(pack.foreign_libraries(self.folder / "absent")[0], ["unknown"])

    def test_an_old_pack_is_not_written_over(self):
        done = subprocess.run([sys.executable, SCRIPT, "--pack", self.folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is there already", done.stderr)


class LaunchTest(ScratchTest):
    """cuda_launch, as the comparison with PyTorch uses it, on the stand-in driver."""

    ROWS = 3

    def setUp(self):
        super().setUp()
        self.driver = cuda_launch.Driver(EMULATOR)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.driver.call("cuDeviceGet", ctypes.byref(device), 0)
        self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.driver.call("cuCtxSetCurrent", context)
        self.tool = command.Headnorm(COMMAND, command.Stop())

    def allocate(self, content):
        address = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(content)))
        self.driver.call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(len(content)))
        return address.value

    def ask(self, *words):
        answer = self.tool.ask(words, 60)
        self.assertEqual(answer.problem(), "")
        return answer.document

    def launched(self, preset, *words):
        """y as this launch leaves it, and as the command computes it; with the document of the launch."""
        file = self.folder / "kernel.ptx"
        document = self.ask("generate", "--preset", preset, "--target", "sm_90", "--emit", "ptx", "-o", file, *words)
        width = int(document["spec"].split(",")[0].partition("=")[2])
        tensors = {"x": npy.activations(self.ROWS, width, "bf16", 1), "gamma": npy.weights(width, "bf16", 2, 1.0, 0.1)}
        addresses = {name: self.allocate(tensor.bits.tobytes()) for name, tensor in tensors.items()}
        addresses["y"] = self.allocate(bytes(2 * self.ROWS * width))
        kernel = cuda_launch.Kernel(self.driver, file, f"{file}.launch.json")
        kernel.launch(addresses, width, self.ROWS)
        self.driver.call("cuCtxSynchronize")
        content = ctypes.create_string_buffer(2 * self.ROWS * width)
        self.driver.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(addresses["y"]), ctypes.c_size_t(len(content)))
        for name, tensor in tensors.items():
            npy.write(self.folder / f"{name}.npy", tensor)
        self.ask("run", "--preset", preset, "--device", "emulator:h200", "--db", self.folder / "db", "--input", self.folder / "x.npy",
                 "--gamma", self.folder / "gamma.npy", "--output", self.folder / "y.npy")
        return content.raw, npy.read(self.folder / "y.npy", "bf16").bits.tobytes(), kernel

    def test_the_same_bits_as_the_command(self):
        mine, theirs, kernel = self.launched("wide-vit-1024")
        self.assertEqual(mine, theirs)
        self.assertGreater(kernel.blocks(1000), kernel.blocks(1))

    def test_a_persistent_grid_is_what_the_device_holds(self):
        default = self.ask("explain", "--preset", "wide-vit-1024", "--target", "sm_90")["schedule"]
        schedule = default.replace("grid=once", "grid=persistent")
        self.assertNotEqual(schedule, default)
        mine, theirs, kernel = self.launched("wide-vit-1024", "--schedule", schedule)
        self.assertEqual(mine, theirs)
        self.assertEqual(kernel.blocks(10**6), kernel.blocks(10**7))

    def test_a_missing_operand_is_told(self):
        _, _, kernel = self.launched("wide-vit-1024")
        with self.assertRaisesRegex(cuda_launch.CudaError, "operand x"):
            kernel.launch({"y": 1}, 1024, 1)

    def test_errors_of_the_driver_have_their_name(self):
        with self.assertRaisesRegex(cuda_launch.CudaError, "CUDA_ERROR_INVALID"):
            self.driver.call("cuModuleLoadData", ctypes.byref(ctypes.c_void_p()), ctypes.c_char_p(b"no PTX"))


if __name__ == "__main__":
    if not pathlib.Path(COMMAND).exists():
        sys.exit("HEADNORM_COMMAND names no headnorm")
    unittest.main()
