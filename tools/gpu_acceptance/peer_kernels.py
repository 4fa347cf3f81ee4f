"""The same normalisation as users of PyTorch and Triton write it; what headnorm is compared with. Needs PyTorch.

    u = x + residual;  n = u / sqrt(mean(u^2 over a head) + eps);  y = n * (gamma + tanh(u . beta over a head) * alpha)

The residual, and the gate with alpha and beta, are there or not: `operands` has None for what is not.
"""

import dataclasses

import torch
import torch.nn.functional as functional


@dataclasses.dataclass
class Operands:
    x: torch.Tensor
    gamma: torch.Tensor
    residual: torch.Tensor = None
    alpha: torch.Tensor = None
    beta: torch.Tensor = None
    y: torch.Tensor = None
    residual_out: torch.Tensor = None

    def addresses(self):
        tensors = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: tensor.data_ptr() for name, tensor in tensors.items() if tensor is not None}

    def bytes(self):
        tensors = [getattr(self, field.name) for field in dataclasses.fields(self)]
        return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def make_operands(rows, width, head_size, dtype, fused, generator):
    """As wide transformers have them: one channel in 256 a hundred times larger, every fifth row tiny."""
    device = generator.device

    def normal(*shape, scale=1.0):
        return torch.randn(*shape, generator=generator, device=device) * scale

    scales = torch.ones(width, device=device)
    scales[torch.randperm(width, generator=generator, device=device)[:max(1, width // 256)]] = 100
    tiny = torch.ones(rows, 1, device=device)
    tiny[4::5] = 2.0**-12
    operands = Operands((normal(rows, width) * scales * tiny).to(dtype), (1 + normal(width, scale=0.1)).to(dtype))
    operands.y = torch.empty_like(operands.x)
    if fused:
        operands.residual = (normal(rows, width) * scales * tiny).to(dtype)
        operands.alpha = normal(width, scale=0.5).to(dtype)
        operands.beta = normal(width, scale=0.3 / head_size**0.5).to(dtype)
        operands.residual_out = torch.empty_like(operands.x)
    return operands


def eager(operands, head_size, eps):
    """With PyTorch's own operators, in the dtype of the tensors; returns y and u."""
    u = operands.x if operands.residual is None else operands.x + operands.residual
    rows, width = u.shape
    if operands.alpha is None and head_size == width:
        return functional.rms_norm(u, (width,), operands.gamma, eps), u
    heads = u.view(rows, -1, head_size)
    n = functional.rms_norm(heads, (head_size,), None, eps)
    gain = operands.gamma.view(1, -1, head_size)
    if operands.alpha is not None:
        seed = torch.tanh((heads * operands.beta.view(1, -1, head_size)).sum(-1, keepdim=True))
        gain = gain + seed * operands.alpha.view(1, -1, head_size)
    return (n * gain).view(rows, width), u


def normalise(u, gamma, alpha, beta, head_size, eps, sigma=torch.tanh):
    """y of the formula, in the dtype of the tensors given."""
    heads = u.unflatten(-1, (-1, head_size))
    n = heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + eps)
    gain = gamma.view(-1, head_size)
    if alpha is not None:
        dot = (heads * beta.view(-1, head_size)).sum(-1, keepdim=True)
        gain = gain + sigma(dot) * alpha.view(-1, head_size)
    return (n * gain).flatten(-2)


def _widened(tensor, dtype):
    return None if tensor is None else tensor.to(dtype)


def make_compiled(head_size, eps):
    """What torch.compile is given: the formula in f32, rounded once; returns y and u."""

    def fused(x, gamma, residual, alpha, beta):
        u = x if residual is None else (x.float() + residual.float()).to(x.dtype)
        y = normalise(u.float(), gamma.float(), _widened(alpha, torch.float32), _widened(beta, torch.float32), head_size, eps)
        return y.to(x.dtype), u

    function = torch.compile(fused, dynamic=False)
    return lambda operands: function(operands.x, operands.gamma, operands.residual, operands.alpha, operands.beta)


def largest_error(y, operands, head_size, eps):
    """Of y against the formula in double, over what rounding y once and f32 arithmetic before it may come to: at most 1 is right.

    That is half an ulp of the dtype, and 2^-14 of |n| (|gamma| + |alpha|): more than sums in f32 lose where the gain cancels.
    `headnorm verify` holds every element to the exact bound; this only tells whether all that are compared compute the same.
    """
    u = operands.x if operands.residual is None else (operands.x.float() + operands.residual.float()).to(operands.x.dtype)
    u, gamma, alpha, beta = (_widened(tensor, torch.float64) for tensor in (u, operands.gamma, operands.alpha, operands.beta))
    expected = normalise(u, gamma, alpha, beta, head_size, eps)
    magnitude = normalise(u.abs(), gamma.abs(), None if alpha is None else alpha.abs(), beta, head_size, eps, sigma=torch.ones_like)
    kind = torch.finfo(y.dtype)
    allowed = kind.eps / 2 * expected.abs() + 2.0**-14 * magnitude + kind.tiny
    error = (y.double() - expected).abs() / allowed
    return float("inf") if bool(torch.isnan(error).any()) else float(error.max())
