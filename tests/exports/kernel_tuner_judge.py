#!/usr/bin/env python3
"""Kernel Tuner, jsonschema and duckdb judge what headnorm exports.

Usage: kernel_tuner_judge.py HEADNORM DATABASE_MAKER. Exit status 77: the packages are not installed.
"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

try:
    import duckdb
    import jsonschema
    import kernel_tuner
    from constraint import FunctionConstraint
    from kernel_tuner import file_utils, integration
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

ALL = "measured,predicted,emulated"


def headnorm(command, folder, *arguments):
    done = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True, check=False, env={"HOME": folder})
    document = json.loads(done.stdout)
    assert done.returncode == 0, document
    return document


def sidecar_of(path):
    with open(path + ".meta.json", encoding="utf-8") as file:
        return json.load(file)


def check_winner(best, cache, schedule):
    fields = dict(part.split("=") for part in schedule.split(","))
    assert set(fields) <= set(cache["tune_params_keys"]), fields
    for name in cache["tune_params_keys"]:
        assert str(best[name]) == fields.get(name, "0" if isinstance(best[name], int) else "none"), (name, best, fields)


def check_cache(path):
    """Tunes in simulation mode on the cache, with and without the configurations that failed; the best must be the record's schedule,
    and the file must stay as it is."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    cache, meta = json.loads(text), sidecar_of(path)
    entries, schedule = cache["cache"], meta["rows"][0]["schedule"]
    failed = sum("__error__" in entry for entry in entries.values())
    results, environment = kernel_tuner.tune_cache(path, quiet=True)
    assert len(results) == len(entries) - failed, (len(results), len(entries), failed)
    check_winner(environment["best_config"], cache, schedule)
    tried = FunctionConstraint(lambda *values: ",".join(str(value) for value in values) in entries)
    results, environment = kernel_tuner.tune_kernel(
        cache["kernel_name"], "", tuple(cache["problem_size"]), [], cache["tune_params"], restrictions=[tried], cache=path,
        simulation_mode=True, quiet=True)
    assert len(results) == len(entries) and sum("__error__" in result for result in results) == failed, (results, failed)
    check_winner(environment["best_config"], cache, schedule)
    with open(path, encoding="utf-8") as file:
        assert file.read() == text, "simulation changed the file"
    return meta["rows"][0]["complete"], failed


def check_t4(path):
    with open(path, encoding="utf-8") as file:
        jsonschema.validate(json.load(file), file_utils.output_file_schema("results")[1])
    jsonschema.validate(sidecar_of(path), file_utils.output_file_schema("metadata")[1])


def check_results(path, folder):
    """The results serve their own device and size, and make a header of device targets."""
    results = integration.TuneResults(path)
    for row in results.data:
        size = tuple(int(part) for part in row["problem_size"].split("x"))
        assert results.get_best_config(row["device_name"], size)["tunable_parameters"] == row["tunable_parameters"], row
    header = os.path.join(folder, "targets.h")
    integration.create_device_targets(header, path)
    with open(header, encoding="utf-8") as file:
        assert f"TARGET_{results.data[0]['device_name']}" in file.read()


def check_parquet(path, folder):
    """docs/exports.md's conversion keeps every cell."""
    parquet = os.path.join(folder, "tuned.parquet")
    duckdb.sql(f"COPY (FROM read_csv('{path}', all_varchar = true)) TO '{parquet}'")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    table = duckdb.sql(f"FROM '{parquet}'")
    assert table.columns == rows[0], table.columns
    back = [[cell or "" for cell in row] for row in table.fetchall()]
    assert back == rows[1:], "cells changed"
    typed = duckdb.sql(f"SELECT count(*), sum(rows), max(time_us_median) FROM '{path}'").fetchall()[0]
    assert typed[0] == len(rows) - 1 and typed[1] > 0 and typed[2] > 0, typed


def check_samples(command, maker, folder):
    database = os.path.join(folder, "db")
    subprocess.run([maker, database], check=True)
    chosen = ["--db", database, "--evidence", ALL]
    for name in ("kernel-tuner-cache", "t4", "t4-ktt", "kernel-tuner-results"):
        headnorm(command, folder, "export", "--format", name, *chosen, "-o", os.path.join(folder, name))
    caches = sorted(glob.glob(os.path.join(folder, "kernel-tuner-cache", "*.cache.json")))
    judged = [check_cache(path) for path in caches]
    assert len(judged) == 7 and sum(complete for complete, _ in judged) == 6, judged
    assert sum(failed for _, failed in judged) == 12, judged
    for name in ("t4", "t4-ktt"):
        paths = glob.glob(os.path.join(folder, name, "*_T4.json"))
        assert paths
        for path in paths:
            check_t4(path)
    for path in glob.glob(os.path.join(folder, "kernel-tuner-results", "*.results.json")):
        check_results(path, folder)
    table = os.path.join(folder, "tuned.csv")
    headnorm(command, folder, "export", "--format", "csv", *chosen, "-o", table)
    check_parquet(table, folder)


def check_search(command, folder):
    """A search of this machine: every candidate is in the cache, and Kernel Tuner finds the same winner."""
    database, cache = os.path.join(folder, "tuned"), os.path.join(folder, "tuned.cache.json")
    tuned = headnorm(command, folder, "tune", "--width", "64", "--head-size", "16", "--rows", "64", "--device", "host", "--threads",
                     "1", "--search", "random", "--budget", "4s", "--db", database)
    headnorm(command, folder, "export", "--format", "kernel-tuner-cache", "--db", database, "-o", cache)
    candidates = tuned["results"][0]["candidates"]
    with open(cache, encoding="utf-8") as file:
        entries = json.load(file)["cache"].values()
    assert sum("__error__" not in entry for entry in entries) == candidates["measured"], candidates
    check_cache(cache)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_samples(sys.argv[1], sys.argv[2], folder)
        check_search(sys.argv[1], folder)
    print("Kernel Tuner takes the exports")


main()
