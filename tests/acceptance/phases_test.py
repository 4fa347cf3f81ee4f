"""The run of tools/gpu-acceptance over a headnorm that errs: every failure is reported, the other phases go on, time limits hold."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from support import ROOT, ScratchTest

from gpu_acceptance import checks, command, main

SCRIPT = ROOT / "tools" / "gpu-acceptance"


class CommandTest(ScratchTest):
    def ask(self, text, limit_s=20.0):
        tool = command.Headnorm(self.script("program", text), command.Stop())
        return tool.ask(["verb"], limit_s)

    def test_an_answer(self):
        answer = self.ask("import json, sys\nprint(json.dumps({'words': sys.argv[1:]}))")
        self.assertEqual((answer.problem(), answer.document, answer.code), ("", {"words": ["verb", "--json"]}, 0))

    def test_what_is_no_answer_is_said(self):
        for text, said in (("print('half {')", "without a JSON document: half {"), ("import sys\nsys.exit('cause')", "exit code 1"),
                           ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
                           ("print('{\"error\": {\"kind\": \"user\", \"message\": \"no such preset\"}}')", "user: no such preset"),
                           ("print('[1]')", "without a JSON document")):
            self.assertIn(said, self.ask(text).problem(), text)

    def test_a_program_that_is_not_there_is_said(self):
        answer = command.Headnorm(self.folder / "absent", command.Stop()).ask([], 5.0)
        self.assertIn("cannot be started", answer.problem())

    def test_one_that_hangs_is_ended_with_all_that_it_started(self):
        pid_file = self.folder / "pid"
        answer = self.ask("import os, pathlib, signal, subprocess, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                          "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
                          f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\ntime.sleep(600)", 2.0)
        self.assertEqual(answer.ended_by, "limit")
        self.assertIn("no answer within", answer.problem())
        child = int(pid_file.read_text())
        for _ in range(100):
            state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False).stdout.strip()
            if state in ("", "Z", "Z+"):
                return
            time.sleep(0.1)
        self.fail(f"process {child} is still there: {state}")

    def test_one_that_is_asked_to_stop_may_answer(self):
        answer = self.ask("import json, time\ntry:\n time.sleep(600)\nexcept KeyboardInterrupt:\n print(json.dumps({'cases': 3}))", 1.0)
        self.assertEqual((answer.ended_by, answer.document), ("limit", {"cases": 3}))


class RunTest(ScratchTest):
    def accept(self, *words, budget="60", **behaviour):
        self.out = self.folder / "out"
        fake = self.fake_headnorm(**behaviour)
        without_sanitizer = {**os.environ, "PATH": "/usr/bin:/bin", "CUDA_HOME": "", "CUDA_PATH": ""}
        done = subprocess.run([sys.executable, SCRIPT, "--headnorm", fake, "--out", self.out, "--budget", budget,
                               "--only", "verify,emulator,copy,tune", *words], capture_output=True, text=True, check=False,
                              env=without_sanitizer, timeout=120)
        self.assertEqual(done.stderr, "")
        return done, self.report()

    def report(self):
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))

    def states(self, report):
        return {phase["name"]: phase["state"] for phase in report["phases"]}

    def failures(self, report, phase):
        return "\n".join(next(entry for entry in report["phases"] if entry["name"] == phase)["failures"])

    def test_all_right(self):
        done, report = self.accept()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(report["verdict"], "accepted")
        self.assertEqual(set(self.states(report).values()), {"passed"})
        self.assertIn("4000 GB/s", (self.out / "report.md").read_text(encoding="utf-8"))

    def test_presets_of_one_kernel_are_one_shape(self):
        _, report = self.accept("--only", "verify")
        shapes = report["phases"][1]["data"]["shapes"]
        self.assertEqual([shape["presets"] for shape in shapes], [["plain", "alias"]] * 2 + [["wide-vit-4096"]] * 2)

    def test_a_wrong_kernel_is_a_failure_and_the_next_phase_goes_on(self):
        done, report = self.accept(ends={"verify": "wrong"})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.states(report), {"machine": "passed", "verify": "failed", "emulator": "passed", "copy": "passed", "tune": "passed"})
        self.assertIn("channel 17: 1.5, expected 1.25", self.failures(report, "verify"))
        self.assertIn("channel 17", (self.out / "report.md").read_text(encoding="utf-8"))

    def test_a_neighbour_of_16_bits_is_right_and_further_is_not(self):
        done, report = self.accept("--only", "emulator", steps={"cuda:0": {"output": 1}})
        self.assertEqual((done.returncode, self.states(report)["emulator"]), (0, "passed"))
        self.assertEqual(report["phases"][1]["data"]["unequal"], 4)
        done, report = self.accept("--only", "emulator", steps={"cuda:0": {"output": 2}})
        self.assertEqual((done.returncode, self.states(report)["emulator"]), (1, "failed"))
        self.assertIn("output is 2 ulp of bf16 from the emulator's, allowed are 1; row 0, channel 0", self.failures(report, "emulator"))

    def test_the_residual_stream_must_have_the_same_bits(self):
        done, report = self.accept("--only", "emulator", steps={"cuda:0": {"residual-output": 1}})
        self.assertEqual(done.returncode, 1)
        self.assertIn("residual-output is 1 ulp", self.failures(report, "emulator"))

    def test_results_of_two_schedules_are_not_compared(self):
        done, report = self.accept("--only", "emulator", schedules={"cuda:0": "lanes=2"}, steps={"cuda:0": {"output": 2}})
        self.assertEqual((done.returncode, self.states(report)["emulator"]), (0, "incomplete"))
        self.assertNotEqual(report["verdict"], "accepted")

    def test_phases_that_cannot_be_done_are_said_and_passed_over(self):
        for how, said in (("crash", "signal 11"), ("garbage", "half a document"), ("error", "no memory")):
            done, report = self.accept("--only", "copy,tune", ends={"tune": how, "explain": how})
            self.assertEqual(done.returncode, 1, how)
            self.assertEqual(self.states(report), {"machine": "passed", "copy": "broken", "tune": "failed"})
            self.assertIn(said, self.failures(report, "tune"))

    def test_a_missing_gpu_is_the_environment(self):
        done, report = self.accept(no_device=True)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(self.states(report), {"machine": "broken"})
        self.assertIn("there is no device cuda:0; there are emulator:h200", report["phases"][0]["summary"])

    def test_a_command_that_hangs_takes_its_share_alone(self):
        begin = time.monotonic()
        done, report = self.accept("--only", "verify,copy", budget="5", ends={"verify": "hang"})
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(self.states(report)["copy"], "passed")
        self.assertEqual(self.states(report)["verify"], "incomplete")
        self.assertNotEqual(report["verdict"], "accepted", done.stdout)

    def test_ctrl_c_leaves_a_report(self):
        self.out = self.folder / "out"
        process = subprocess.Popen([sys.executable, SCRIPT, "--headnorm", self.fake_headnorm(ends={"tune": "hang"}), "--out", self.out,
                                    "--only", "verify,tune"], stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("verify"):
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75)
        report = self.report()
        self.assertTrue(report["interrupted"])
        self.assertEqual(self.states(report)["verify"], "passed")
        self.assertIn("interrupted", (self.out / "report.md").read_text(encoding="utf-8"))

    def test_bad_usage(self):
        for words in (["--only", "nothing"], ["--budget", "4"], ["--budget", "soon"], ["--no-such-option"]):
            done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, words)
        done = subprocess.run([sys.executable, SCRIPT, "--headnorm", self.folder / "absent"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("remedy:", done.stderr)


# A Python that says it has PyTorch, and in the place of the worker does as it is told with the file of results.
PYTHON = """import json, sys
if sys.argv[1] == "-c":
    print('{"torch": "9.9", "cuda": "13.0", "gpu": true, "triton": null}')
    sys.exit(0)
cases, results = sys.argv[3:5]
row = {"variant": "norm", "rows": 8, "tuned": True, "errors": {}, "absent": {}, "failures": [], "times": {}, "ratios": {}}
rows = [{**row, "preset": case["preset"]} for case in json.load(open(cases))["cases"]]
"""


class PeersTest(ScratchTest):
    def peers(self, text):
        python = self.script("python", PYTHON + text)
        fake = self.fake_headnorm()
        out = self.folder / "out"
        done = subprocess.run([sys.executable, SCRIPT, "--headnorm", fake, "--out", out, "--budget", "60", "--only", "peers", "--python", python],
                              capture_output=True, text=True, check=False, timeout=120)
        return done, json.loads((out / "report.json").read_text(encoding="utf-8"))["phases"][1]

    def test_comparisons_are_reported(self):
        done, phase = self.peers("open(results, 'w').write(''.join(json.dumps(row) + '\\n' for row in rows))")
        self.assertEqual((done.returncode, phase["state"], len(phase["data"]["rows"])), (0, "passed", 2), done.stdout)
        self.assertEqual(phase["data"]["versions"]["torch"], "9.9")

    def test_what_was_compared_before_a_crash_is_kept(self):
        done, phase = self.peers("open(results, 'w').write(json.dumps(rows[0]) + '\\n')\nsys.exit('illegal memory access')")
        self.assertEqual((done.returncode, phase["state"], len(phase["data"]["rows"])), (0, "incomplete", 1))

    def test_a_crash_before_the_first_is_told(self):
        done, phase = self.peers("sys.exit('no kernel image')")
        self.assertEqual((done.returncode, phase["state"]), (3, "broken"))
        self.assertIn("no kernel image", phase["summary"])

    def test_a_wrong_result_is_a_failure(self):
        done, phase = self.peers("rows[1]['failures'] = ['y is wrong']\n"
                                 "open(results, 'w').write(''.join(json.dumps(row) + '\\n' for row in rows))")
        self.assertEqual((done.returncode, phase["state"], phase["failures"]), (1, "failed", ["y is wrong"]))


class PhaseTest(unittest.TestCase):
    def test_a_defect_of_the_script_is_reported(self):
        def raises(_context, _deadline):
            raise KeyError("spec")

        original, main.PHASES["copy"] = main.PHASES["copy"], raises
        self.addCleanup(main.PHASES.__setitem__, "copy", original)
        result = main.run_phase("copy", None, None)
        self.assertEqual(result.state.value, "broken")
        self.assertIn("KeyError: 'spec'", result.summary)
        self.assertIn("raises", result.failures[0])


class SanitizerTest(ScratchTest):
    def sanitize(self, text):
        from gpu_acceptance.budget import Budget
        from gpu_acceptance.context import Context, Shape
        binary = self.script("compute-sanitizer", text)
        shape = Shape("wide-vit-1024", ("wide-vit-1024",), 1024, 256, "bf16", 8)
        stop = command.Stop()
        context = Context(command.Headnorm("headnorm", stop), stop, "cuda:0", "", "", [shape], self.folder, self.folder)
        original, checks.find_sanitizer = checks.find_sanitizer, lambda: binary
        self.addCleanup(setattr, checks, "find_sanitizer", original)
        return checks.sanitizer(context, Budget(60, {"sanitizer": 1}).deadline("sanitizer"))

    def test_nothing_found(self):
        result = self.sanitize("import sys\nkind = sys.argv[2]\n"
                               "print('RACECHECK SUMMARY: 0 hazards displayed' if kind == 'racecheck' else 'ERROR SUMMARY: 0 errors')")
        self.assertEqual((result.state.value, len(result.data["rows"])), ("passed", 4))

    def test_a_finding_is_a_failure_with_its_text(self):
        result = self.sanitize("import sys\nprint('Invalid __global__ read of size 16\\nERROR SUMMARY: 3 errors')\nsys.exit(86)")
        self.assertEqual(result.state.value, "failed")
        self.assertIn("Invalid __global__ read", result.failures[0])

    def test_hazards_that_are_warnings_are_failures_too(self):
        result = self.sanitize("print('RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)')")
        self.assertEqual(result.state.value, "failed")

    def test_one_that_does_not_work_is_no_verdict_on_kernels(self):
        result = self.sanitize("import sys\nsys.exit('Unable to find injection library')")
        self.assertEqual(result.state.value, "broken")
        self.assertIn("injection library", result.failures[0])

    def test_it_is_found_where_the_toolkit_has_it(self):
        (self.folder / "bin").mkdir()
        path = self.folder / "bin" / "compute-sanitizer"
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        self.assertEqual(checks.find_sanitizer({"PATH": "", "CUDA_HOME": str(self.folder)}), str(path))
        self.assertEqual(checks.find_sanitizer({"PATH": str(path.parent)}), str(path))


if __name__ == "__main__":
    unittest.main()
