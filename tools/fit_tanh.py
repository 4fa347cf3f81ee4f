#!/usr/bin/env python3
"""Fit the rational approximation of tanh in generator/algorithm/sigma.cpp and measure its error in f32.

tanh(z) = z * P(z^2) / Q(z^2) on |z| <= LIMIT, minimising the largest relative error (weighted linear least squares, the weights
raised where the error is large: Lawson's iteration), then evaluated in f32 with fma exactly as the kernels do.
Needs numpy and mpmath. Usage: tools/fit_tanh.py
"""
import mpmath
import numpy as np

LIMIT = 9.0  # tanh(9) = 1 - 3.05e-8 rounds to 1 in f32
P_TERMS, Q_TERMS = 5, 5  # coefficients of P and Q


def fit():
    mpmath.mp.dps = 40
    nodes = np.cos(np.linspace(0, np.pi / 2, 400))[::-1] * LIMIT
    nodes[0] = 1e-3
    z = [mpmath.mpf(float(v)) for v in nodes]
    t = [mpmath.tanh(v) / v for v in z]
    weights = np.ones(len(z))
    denominator = [mpmath.mpf(1)] * len(z)
    for _ in range(60):
        rows, right = [], []
        for k, v in enumerate(z):
            scale = mpmath.sqrt(mpmath.mpf(float(weights[k]))) / (t[k] * denominator[k])
            s = v * v
            rows.append([scale * s**i for i in range(P_TERMS)] + [-scale * t[k] * s**i for i in range(1, Q_TERMS)])
            right.append(scale * t[k])
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(right))
        p = [solution[i] for i in range(P_TERMS)]
        q = [mpmath.mpf(1)] + [solution[P_TERMS + i] for i in range(Q_TERMS - 1)]
        errors = []
        for k, v in enumerate(z):
            s = v * v
            denominator[k] = mpmath.polyval(q[::-1], s)
            errors.append(abs(float(mpmath.polyval(p[::-1], s) / denominator[k] / t[k] - 1)))
        errors = np.array(errors)
        weights = weights * (errors + 1e-3 * errors.max())
        weights /= weights.sum()
    return p, q, errors.max()


def fma(a, b, c):
    # Exact in double for f32 operands up to one double rounding before the f32 one.
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def evaluate(p, q, z):
    z = np.clip(z, np.float32(-LIMIT), np.float32(LIMIT)).astype(np.float32)
    s = (z * z).astype(np.float32)
    top = np.full_like(s, np.float32(p[-1]))
    for c in p[-2::-1]:
        top = fma(top, s, np.float32(c))
    bottom = np.full_like(s, np.float32(q[-1]))
    for c in q[-2::-1]:
        bottom = fma(bottom, s, np.float32(c))
    return ((z * top).astype(np.float32) / bottom).astype(np.float32)


def main():
    p, q, error = fit()
    print(f"relative error of the fit: {error:.3g}")
    p32 = [float(np.float32(float(c))) for c in p]
    q32 = [float(np.float32(float(c))) for c in q]
    print("P:", ", ".join(f"{c:.9g}" for c in p32))
    print("Q:", ", ".join(f"{c:.9g}" for c in q32))
    z = np.concatenate([np.linspace(1e-6, 12, 4_000_001), np.geomspace(1e-30, 1e-2, 200_001)]).astype(np.float32)
    exact = np.tanh(z.astype(np.float64))
    relative = np.abs(evaluate(p32, q32, z).astype(np.float64) / exact - 1)
    worst = int(relative.argmax())
    print(f"largest relative error in f32: {relative[worst]:.3g} ({relative[worst] / 2**-24:.2f} half-ulps) at z = {z[worst]:.9g}")


if __name__ == "__main__":
    main()
