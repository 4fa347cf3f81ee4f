"""A headnorm for tests: answers with JSON as the real one does, and errs as SETTINGS.json tells it.

usage: fake_headnorm.py SETTINGS.json VERB ...

settings: "ends": {verb: how}, how one of "hang" (not even a request to stop helps), "crash", "garbage", "error", "wrong" (verify);
"steps": {device: {output: how many ulp its first element is moved}}; "no_device": the GPU is not there.
"""

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from gpu_acceptance import npy  # noqa: E402

SETTINGS = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
VERB, WORDS = sys.argv[2], sys.argv[3:]
OPTIONS = dict(zip(WORDS, WORDS[1:]))
PRESETS = [("plain", 64, 32), ("alias", 64, 32), ("wide-vit-4096", 96, 96)]


def answer(document, code=0):
    print(json.dumps({"headnorm": "0.0.0", "verb": VERB, "ok": code == 0, **document}))
    sys.exit(code)


def devices():
    gpu = {"name": "Fake GPU", "kind": "cuda", "id": "cuda:0", "target": "sm_90", "units": 1, "driver": "12.8"}
    emulated = {**gpu, "kind": "emulator", "id": "emulator:h200"}
    answer({"devices": [emulated] if SETTINGS.get("no_device") else [gpu, emulated]})


def presets():
    answer({"presets": [{"name": name, "width": width, "head_size": size, "dtype": "bf16", "eps": 1e-6, "weight": "channel",
                         "weight_offset": 0.0, "stat": "rms", "supported": True, "rows": 8} for name, width, size in PRESETS]})


def verify():
    failure = {"rows": 7, "schedule": "lanes=1", "what": "y", "message": "outside the error bound", "row": 3, "channel": 17,
               "value": 1.5, "expected": 1.25, "bound": 1e-6}
    wrong = SETTINGS.get("ends", {}).get("verify") == "wrong"
    answer({"cases": 12, "failed": int(wrong), "failures": [failure] if wrong else []}, int(wrong))


def run():
    """y is x and u the residual, but for what is to be wrong on this device."""
    steps = SETTINGS.get("steps", {}).get(OPTIONS["--device"], {})
    for source, target in (("--input", "--output"), ("--residual-input", "--residual-output")):
        if target not in OPTIONS:
            continue
        tensor = npy.read(OPTIONS[source], "bf16")
        tensor.bits[0] += steps.get(target.removeprefix("--"), 0)
        npy.write(OPTIONS[target], tensor)
    answer({"served": "default", "schedule": SETTINGS.get("schedules", {}).get(OPTIONS["--device"], "lanes=1")})


def tune():
    answer({"results": [{"spec": "width=64", "rows": 8, "schedule": "lanes=1", "evidence": "measured", "gb_per_s": 1000.0, "copy_ratio": 0.9,
                         "time_us": {"median": 10.0}, "candidates": {"measured": 3, "legal": 4}}]})


def explain():
    answer({"roofline": [{"gb_per_s": 4000.0, "source": "a plain copy"}]})


def main():
    how = SETTINGS.get("ends", {}).get(VERB)
    if how == "hang":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(600)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "garbage":
        print("{ half a document")
        sys.exit(0)
    if how == "error":
        answer({"error": {"kind": "environment", "message": "no memory", "remedy": "free some"}}, 3)
    if VERB == "--version":
        print("headnorm 0.0.0")
        return
    {"devices": devices, "presets": presets, "doctor": lambda: answer({"checks": []}), "verify": verify, "run": run, "tune": tune,
     "explain": explain, "generate": lambda: answer({})}[VERB]()


main()
