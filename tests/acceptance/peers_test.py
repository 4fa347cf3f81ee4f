"""What headnorm is compared with computes the same: the formulas for PyTorch and the Triton kernel, on the processor. Skipped where
they are not installed."""

import os
import sys
import unittest

os.environ["TRITON_INTERPRET"] = "1"

import support  # noqa: E402, F401

try:
    import torch
    from gpu_acceptance import peer_kernels
except ImportError as error:
    print(f"SKIPPED: PyTorch cannot be imported: {error}")
    sys.exit(77)
try:
    from gpu_acceptance import triton_kernel
except ImportError:
    triton_kernel = None

SHAPES = [(512, 256), (416, 208), (256, 256), (640, 320)]
EPS = 1e-6


def cases():
    generator = torch.Generator().manual_seed(5)
    for width, head_size in SHAPES:
        for fused in (False, True):
            # f16: the interpreter of Triton cuts bf16 off instead of rounding it.
            yield peer_kernels.make_operands(7, width, head_size, torch.float16, fused, generator), width, head_size


def by_hand(operands, head_size):
    """Row by row, head by head, in double."""
    y = torch.empty(operands.x.shape, dtype=torch.float64)
    for row in range(operands.x.shape[0]):
        u = operands.x[row]
        if operands.residual is not None:
            u = (u.float() + operands.residual[row].float()).to(operands.x.dtype)
        for begin in range(0, operands.x.shape[1], head_size):
            part = slice(begin, begin + head_size)
            head = u[part].double()
            gain = operands.gamma[part].double()
            if operands.alpha is not None:
                gain = gain + torch.tanh(head @ operands.beta[part].double()) * operands.alpha[part].double()
            y[row, part] = head / torch.sqrt((head @ head) / head_size + EPS) * gain
    return y


class PeersTest(unittest.TestCase):
    def test_the_formula_is_right(self):
        for operands, _, head_size in cases():
            y = by_hand(operands, head_size).to(torch.float16)
            self.assertLessEqual(peer_kernels.largest_error(y, operands, head_size, EPS), 1)

    def test_a_wrong_element_is_seen(self):
        for operands, _, head_size in cases():
            y = by_hand(operands, head_size).to(torch.float16)
            y[2, 5] *= 1.05
            self.assertGreater(peer_kernels.largest_error(y, operands, head_size, EPS), 1)
            y[2, 5] = float("nan")
            self.assertEqual(peer_kernels.largest_error(y, operands, head_size, EPS), float("inf"))

    def test_eager_computes_it_in_steps_of_the_dtype(self):
        for operands, _, head_size in cases():
            y, u = peer_kernels.eager(operands, head_size, EPS)
            self.assertEqual((y.shape, y.dtype, u.dtype), (operands.x.shape, operands.x.dtype, operands.x.dtype))
            self.assertLess(peer_kernels.largest_error(y, operands, head_size, EPS), 8)

    @unittest.skipIf(triton_kernel is None, "Triton is not installed")
    def test_the_triton_kernel_computes_it(self):
        for operands, width, head_size in cases():
            for configuration in triton_kernel.configurations(width // head_size, head_size):
                y, _ = triton_kernel.norm(operands, head_size, EPS, configuration)
                self.assertLessEqual(peer_kernels.largest_error(y, operands, head_size, EPS), 1, (width, head_size, configuration))


if __name__ == "__main__":
    unittest.main()
