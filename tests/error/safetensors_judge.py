#!/usr/bin/env python3
"""Runs headnorm on files that Python's safetensors wrote, reads what it writes with it, and works out y in double precision.

Usage: safetensors_judge.py HEADNORM. Exit status 77: numpy or safetensors is not installed.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)


def judge(command, folder, dtype, tolerance):
    random = numpy.random.default_rng(5)
    tensors = {
        "model.norm.weight": random.normal(size=64).astype(dtype),
        "ids": numpy.arange(7),
        "hidden": random.normal(size=(2, 3, 64)).astype(dtype),
    }
    source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    save_file(tensors, source, metadata={"format": "np"})
    subprocess.run(
        [command, "run", "--threads", "1", "--head-size", "16", "--eps", "1e-5", "--input", f"{source}:hidden", "--gamma",
         f"{source}:model.norm.weight", "--output", f"{target}:model.y"],
        check=True, stdout=subprocess.DEVNULL, env={"HOME": folder})
    out = load_file(target)
    assert list(out) == ["model.y"], list(out)
    y = out["model.y"]
    assert y.dtype == dtype and y.shape == (2, 3, 64), (y.dtype, y.shape)
    x = tensors["hidden"].astype(numpy.float64).reshape(2, 3, 4, 16)
    expected = (x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)).reshape(2, 3, 64)
    expected *= tensors["model.norm.weight"].astype(numpy.float64)
    error = numpy.abs(y.astype(numpy.float64) - expected) / numpy.maximum(numpy.abs(expected), 1e-3)
    assert error.max() <= tolerance, error.max()


def main():
    with tempfile.TemporaryDirectory() as folder:
        # f16 is rounded once, at most 2^-11; f32 differs by less than the 4e-6 of docs/numerics.md.
        judge(sys.argv[1], folder, numpy.dtype("float32"), 4e-6)
        judge(sys.argv[1], folder, numpy.dtype("float16"), 2.0**-11 + 4e-6)
    print("headnorm and safetensors agree")


if __name__ == "__main__":
    main()
