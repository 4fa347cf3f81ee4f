#!/usr/bin/env python3
"""Reads exports by the rules of their readers, written down here again: wisdom files, vLLM's style, Triton's, KTT's, CSV.

Usage: readers_judge.py HEADNORM DATABASE_MAKER. Needs nothing but Python.
"""
import csv
import glob
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import types

ALL = "measured,predicted,emulated"
HOSTILE = "Evil \"GPU\" \\ ??/ a|b, c*/ 'd' \u00df"


def export(command, folder, name, target, *more):
    done = subprocess.run(
        [command, "export", "--format", name, "--db", os.path.join(folder, "db"), "--evidence", ALL, "-o", target, *more],
        capture_output=True, text=True, check=False, env={"HOME": folder})
    assert done.returncode == 0, done.stderr
    return target


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def check_wisdom(command, folder):
    """Kernel Launcher: JSON lines, the key is the file's name, one row for a device and size, values that were declared."""
    paths = glob.glob(os.path.join(export(command, folder, "wisdom", os.path.join(folder, "wisdom")), "*"))
    devices = set()
    for path in paths:
        lines = [line for line in read(path).split("\n") if line and not line.startswith(("#", "//"))]
        header, rows = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
        assert header["version"] == "1.0" and header["objective"] == "time", header
        assert re.sub(r"[^0-9A-Za-z_.-]", "_", header["key"]) + ".wisdom" == os.path.basename(path), path
        assert rows
        for row in rows:
            assert len(row["config"]) == len(header["tunable_parameters"])
            assert all(isinstance(value, (int, str)) for value in row["config"])
            assert 1 <= len(row["problem_size"]) <= 3 and all(isinstance(size, int) for size in row["problem_size"])
            assert isinstance(row["time"], float) and row["time"] > 0
            assert "width=4096" in row["environment"]["headnorm_spec"]
            devices.add(row["environment"]["device_name"])
        keys = [(row["environment"]["device_name"], tuple(row["problem_size"])) for row in rows]
        assert len(keys) == len(set(keys)), keys
    assert len(paths) == 2 and HOSTILE in devices, devices


def check_vllm(command, folder):
    """Its loader: every key but triton_version is an integer, and min(keys, |k - M|) takes the first of equals."""
    paths = [path for path in glob.glob(os.path.join(export(command, folder, "vllm", os.path.join(folder, "vllm")), "*.json"))
             if not path.endswith(".meta.json")]
    assert len(paths) == 6, paths
    assert any("op=mh_rmsnorm,H=16,D=256,device_name=NVIDIA_H200,dtype=bfloat16.json" in path for path in paths), paths
    for path in paths:
        assert " " not in os.path.basename(path)
        table = json.loads(read(path))
        keys = [int(key) for key in table]
        assert keys == sorted(keys) and keys, path
        assert all(isinstance(value, (int, str)) for config in table.values() for value in config.values())


def load_triton_file(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Config:
    """The parameters of triton.Config."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = kwargs, num_warps, num_stages, num_ctas
        self.maxnreg, self.pre_hook, self.ir_override = maxnreg, pre_hook, ir_override


def check_configs(module, is_config):
    assert module.HEADNORM_CONFIGS and module.HEADNORM_CONFIGS.keys() == module.HEADNORM_BEST.keys()
    assert any(name == HOSTILE for name, _, _ in module.HEADNORM_CONFIGS)
    for key, configs in module.HEADNORM_CONFIGS.items():
        assert all(is_config(config) for config in configs)
        assert all(config.num_warps in (1, 2, 4, 8, 16, 32) and config.num_stages == 1 for config in configs)
        assert all(isinstance(value, (int, str)) for config in configs for value in config.kwargs.values())
        distinct = {json.dumps([config.kwargs, config.num_warps], sort_keys=True) for config in configs}
        assert len(distinct) == len(configs), key
        assert all(0 <= place < len(configs) for place in module.HEADNORM_BEST[key].values())


def check_triton(command, folder):
    path = export(command, folder, "triton", os.path.join(folder, "headnorm_configs.py"))
    present = sys.modules.pop("triton", None)
    sys.modules["triton"] = None  # importing it fails
    check_configs(load_triton_file(path, "without"), lambda config: type(config).__name__ == "_Config")
    stub = types.ModuleType("triton")
    stub.Config = Config
    sys.modules["triton"] = stub
    check_configs(load_triton_file(path, "with_stub"), lambda config: isinstance(config, Config))
    del sys.modules["triton"]
    if present is not None:
        sys.modules["triton"] = present
    if importlib.util.find_spec("triton") is None:
        return
    triton = importlib.import_module("triton")
    check_configs(load_triton_file(path, "with_triton"), lambda config: isinstance(config, triton.Config))


def check_ktt(command, folder):
    """KTT's reader, and its gzip custom."""
    target = export(command, folder, "t4-ktt", os.path.join(folder, "ktt"), "--gzip")
    paths = glob.glob(os.path.join(target, "*.ktt_T4.json.gz"))
    assert len(paths) == 6, paths
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            document = json.load(file)
        assert {"compute_api", "platform", "device", "timestamp", "timeunit"} <= set(document["metadata"])
        assert document["metadata"]["compute_api"] == "CUDA" and document["metadata"]["timeunit"] == "milliseconds"
        for result in document["results"]:
            assert result["timestamp"] and result["invalidity"] in ("correct", "runtime", "correctness", "compile")
            # Values keep their types, by which they are compared with those of a kernel's parameters.
            assert result["configuration"], path
            assert all(isinstance(value, str) or isinstance(value, int) and value >= 0
                       for value in result["configuration"].values())
            times = result["times"]
            assert all(isinstance(times[name], (int, float)) for name in ("compilation_time", "framework", "validation"))
            assert times["runtimes"] and isinstance(times["runtimes"][0], (int, float)) and len(result["measurements"]) == 1
        assert os.path.exists(path[:-3] + ".meta.json")


def check_t4(command, folder):
    """The schema's rules, and those of autotuning_methodology about failures."""
    paths = glob.glob(os.path.join(export(command, folder, "t4", os.path.join(folder, "t4")), "*_T4.json"))
    assert len(paths) == 7, paths
    for path in paths:
        document = json.loads(read(path))
        assert re.match(r"^[0-9]+\.[0-9]+\.[0-9]+$", document["schema_version"])
        for result in document["results"]:
            assert {"configuration", "times", "invalidity", "correctness"} <= set(result)
            assert result["invalidity"] in ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
            named = [measurement["value"] for measurement in result["measurements"] if measurement["name"] == result["objectives"][0]]
            assert len(named) == 1
            failed = named[0] in ("InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig")
            assert failed == (result["invalidity"] != "correct") and (failed or named[0] > 0)


def check_csv(command, folder):
    path = export(command, folder, "csv", os.path.join(folder, "tuned.csv"))
    text = read(path)
    assert "\r" not in text and text.endswith("\n")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 and all(None not in row and None not in row.values() for row in rows)
    assert sum(row["device_name"] == HOSTILE for row in rows) == 1
    assert len({row["record"] for row in rows}) == 7
    for row in rows:
        assert float(row["time_us_median"]) > 0 and int(row["rows"]) > 0 and row["seed"] == "18364758544493064720"


def main():
    command, maker = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([maker, os.path.join(folder, "db")], check=True)
        for check in (check_wisdom, check_vllm, check_triton, check_ktt, check_t4, check_csv):
            check(command, folder)
    print("the exports are what their readers ask for")


main()
