"""Plain values of tools/gpu_acceptance: the budget, tensors and their comparison, verdicts, the report."""

import math
import unittest

from support import ScratchTest

from gpu_acceptance import npy, render
from gpu_acceptance.budget import Budget
from gpu_acceptance.peer_results import parse_spec, quantile, summarise
from gpu_acceptance.results import PhaseResult, Run, State, finish, write_json, write_whole


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class BudgetTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.budget = Budget(100, {"a": 10, "b": 30, "c": 60}, self.clock)

    def test_a_phase_has_its_share(self):
        self.assertAlmostEqual(self.budget.deadline("a").left_s(), 10)

    def test_what_one_leaves_goes_to_the_others(self):
        self.clock.now_s += 1
        self.assertAlmostEqual(self.budget.deadline("b").left_s(), 33)
        self.clock.now_s += 1
        self.assertAlmostEqual(self.budget.deadline("c").left_s(), 98)

    def test_what_one_overruns_the_others_lack(self):
        self.clock.now_s += 55
        self.assertAlmostEqual(self.budget.deadline("b").left_s(), 15)

    def test_nothing_is_left_after_the_end(self):
        self.clock.now_s += 1000
        self.assertEqual(self.budget.deadline("c").left_s(), 0)
        self.assertEqual(self.budget.left_s(), 0)

    def test_a_part_of_a_deadline_ends_no_later(self):
        deadline = self.budget.deadline("a")
        self.assertAlmostEqual(deadline.within(3).left_s(), 3)
        self.assertAlmostEqual(deadline.within(30).left_s(), 10)
        self.clock.now_s += 4
        self.assertAlmostEqual(deadline.left_s(), 6)


class NpyTest(ScratchTest):
    def test_bf16_is_rounded_to_nearest_even(self):
        for value, bits in ((1.0, 0x3F80), (1 + 2.0**-8, 0x3F80), (1 + 3 * 2.0**-8, 0x3F82), (1 + 2.0**-8 + 2.0**-16, 0x3F81), (-2.0, 0xC000)):
            self.assertEqual(npy.to_bits(value, "bf16"), bits, value)

    def test_files_come_back(self):
        for dtype in ("f32", "f16", "bf16"):
            written = npy.activations(3, 512, dtype, 7)
            npy.write(self.folder / "t.npy", written)
            self.assertEqual((self.folder / "t.npy").stat().st_size % 64, 3 * 512 * (4 if dtype == "f32" else 2) % 64)
            self.assertEqual(npy.read(self.folder / "t.npy", dtype), written)

    def test_damaged_files_are_refused(self):
        path = self.folder / "t.npy"
        npy.write(path, npy.activations(2, 16, "bf16", 1))
        whole = path.read_bytes()
        for content in (whole[:-2], whole + b"xx", b"no tensor", whole.replace(b"<u2", b"<f2")):
            path.write_bytes(content)
            with self.assertRaises(ValueError):
                npy.read(path, "bf16")

    def test_data_has_outliers_and_tiny_rows(self):
        tensor = npy.activations(5, 512, "f32", 1)
        rows = [[abs(npy.to_float(bits, "f32")) for bits in tensor.bits[512 * row:512 * (row + 1)]] for row in range(5)]
        self.assertEqual(len([column for column in zip(*rows) if max(column) > 20]), 2)
        self.assertLess(max(rows[4]), 0.2)

    def test_distance_in_ulp(self):
        def bits(*values):
            return npy.make_tensor(values, (1, len(values)), "f32")

        cases = [((1.0, 2.0), (1.0, 2.0), 0, 0), ((0.0,), (-0.0,), 1, 0), ((1.0,), (math.nextafter(1, 2),), 0, 0),
                 ((1.0,), (1 + 2.0**-23,), 1, 1), ((1.0,), (1 - 2.0**-24,), 1, 1), ((2.0**-149,), (-2.0**-149,), 1, 2),
                 ((math.nan,), (math.nan,), 0, 0), ((math.nan,), (1.0,), 1, 1 << 32), ((3.0, 1.0), (3.0, 1 + 2.0**-20), 1, 8)]
        for one, other, unequal, ulp in cases:
            found = npy.compare(bits(*one), bits(*other))
            self.assertEqual((found.unequal, found.largest_ulp), (unequal, ulp), (one, other))

    def test_the_place_of_the_largest_is_told(self):
        one, other = (npy.make_tensor([float(i) for i in range(12)], (3, 4), "f32") for _ in range(2))
        other.bits[9] += 5
        other.bits[2] += 1
        found = npy.compare(one, other)
        self.assertEqual((found.at, found.largest_ulp, found.unequal), ((2, 1), 5, 2))
        self.assertEqual(found.values[0], 9.0)

    def test_other_shapes_are_no_match(self):
        with self.assertRaises(ValueError):
            npy.compare(npy.make_tensor([1.0], (1, 1), "f32"), npy.make_tensor([1.0, 2.0], (1, 2), "f32"))


def run_with(*states, interrupted=False):
    return Run("headnorm 0", "cuda:0", {}, "now", [PhaseResult("verify", state, "what it says") for state in states], interrupted)


class VerdictTest(ScratchTest):
    def test_exit_codes(self):
        passed, failed, broken, skipped, incomplete = State.PASSED, State.FAILED, State.BROKEN, State.SKIPPED, State.INCOMPLETE
        for states, interrupted, code, word in (((passed, passed), False, 0, "accepted"), ((passed, skipped), False, 0, "without verify"),
                                                ((passed, incomplete), False, 0, "before everything"), ((broken, failed), False, 1, "not accepted"),
                                                ((passed, broken), False, 3, "not accepted"), ((passed,), True, 75, "interrupted"),
                                                ((failed,), True, 1, "not accepted")):
            run = run_with(*states, interrupted=interrupted)
            self.assertEqual(run.exit_code(), code, states)
            self.assertIn(word, run.verdict(), states)

    def test_a_phase_that_found_nothing_wrong_in_a_part_is_not_passed(self):
        self.assertEqual(finish("x", [], 2, 3, "things", {}).state, State.INCOMPLETE)
        self.assertEqual(finish("x", [], 3, 3, "things", {}).state, State.PASSED)
        self.assertEqual(finish("x", ["a"], 2, 3, "things", {}).state, State.FAILED)

    def test_an_old_report_stays_until_the_new_one_is_whole(self):
        path = self.folder / "report.md"
        write_whole(path, "old")
        with self.assertRaises(TypeError):
            write_whole(path, None)
        self.assertEqual(path.read_text(encoding="utf-8"), "old")


class PeerResultsTest(unittest.TestCase):
    def test_a_ratio_is_that_of_the_rounds(self):
        # The GPU is twice as slow in the last two of five rounds: the medians of the times would say something else.
        ours, theirs = [10, 10, 10, 20, 20], [12, 30, 12, 24, 24]
        rows, ratios = summarise({"headnorm": ours, "triton": theirs}, 1e6)
        self.assertEqual(ratios, {"triton": 1.2})
        self.assertEqual((rows["headnorm"]["median_us"], rows["headnorm"]["samples"]), (10, 5))
        self.assertEqual(rows["triton"]["gb_per_s"], 1e6 / 24 / 1e3)

    def test_quantiles(self):
        self.assertEqual([quantile([3, 1, 2], fraction) for fraction in (0, 0.25, 0.5, 1)], [1, 1.5, 2, 3])

    def test_specs_are_read(self):
        text = "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16,eps=1e-06"
        self.assertEqual(parse_spec(text), {"width": 4096, "head_size": 256, "eps": 1e-6, "dtype": "bf16", "fused": False})
        self.assertTrue(parse_spec(text + ",residual=add:bf16,gate=seednorm,seed_heads=16")["fused"])


FULL = {
    "machine": {"device": {"name": "GPU | one", "target": "sm_90"}, "system": "Linux", "nvidia_smi": "a, b"},
    "verify": {"cases": 1234, "shapes": [{"presets": ["p1", "p2"], "variant": "norm", "right": False}]},
    "emulator": {"emulator": "emulator:h200", "elements": 77, "unequal": 3, "allowed_ulp": {"bf16": 1},
                 "rows": [{"outputs": {"output": {"largest_ulp": 1}}}]},
    "sanitizer": {"rows": [{"tool": "racecheck", "preset": "p1", "variant": "norm", "right": True}]},
    "copy": {"gb_per_s": 4321.0, "source": "a copy"},
    "tune": {"results": [{"preset": "p1", "variant": "norm", "rows": 8, "time_us": {"median": 12.34}, "gb_per_s": 2000.0, "copy_ratio": None,
                          "candidates": {"measured": 5, "legal": 6}, "evidence": "measured", "schedule": "lanes=1"}]},
    "peers": {"versions": {"torch": "2.9", "gpu": True},
              "rows": [{"preset": "p1", "variant": "norm", "rows": 8, "tuned": False, "ratios": {"copy": 0.91},
                        "times": {"headnorm": {"median_us": 10.0, "gb_per_s": 1.0}, "copy": {"median_us": 9.1, "gb_per_s": 1.0}},
                        "absent": {"triton": "CompilationError: no"}}]},
}
SHOWN = ["GPU \\| one", "a, b", "1234 launches", "p1, p2", "77 elements, 3 of them", "racecheck", "4321 GB/s", "12.34", "5 of 6", "`lanes=1`",
         "torch 2.9", "10.00 (1)", "9.10 (1) [0.91]", "(not tuned)", "failed", "CompilationError"]


class RenderTest(ScratchTest):
    def document(self, data, failures=()):
        run = Run("headnorm 0", "cuda:0", {}, "now")
        run.phases = [PhaseResult(name, State.PASSED, "done", data.get(name, {}), list(failures)) for name in render.SECTIONS]
        write_json(self.folder / "report.json", run)
        return run.document()

    def test_every_number_of_every_phase_is_shown(self):
        text = render.markdown(self.document(FULL))
        for part in SHOWN:
            self.assertIn(part, text)

    def test_phases_that_say_nothing_are_a_line_each(self):
        text = render.markdown(self.document({}, ["y of row 3 is wrong"]))
        self.assertEqual(text.count("- y of row 3 is wrong"), len(render.SECTIONS))
        for name in render.SECTIONS:
            self.assertIn(f"| {name} | passed |", text)

    def test_tables_have_as_many_cells_as_heads(self):
        lines = render.markdown(self.document(FULL)).splitlines()
        for above, below in zip(lines, lines[1:]):
            if above.startswith("|") and below.startswith("|"):
                self.assertEqual(above.replace("\\|", "").count("|"), below.replace("\\|", "").count("|"), below)


if __name__ == "__main__":
    unittest.main()
