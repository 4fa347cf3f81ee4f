"""The normalisation of peer_kernels as a Triton kernel: a program takes some heads of a row. Needs Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def _norm(x, residual, gamma, alpha, beta, y, residual_out, heads, eps, HEAD_SIZE: tl.constexpr, BLOCK: tl.constexpr,
          TILE: tl.constexpr, FUSED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * heads * HEAD_SIZE
    head = tl.program_id(1) * TILE + tl.arange(0, TILE)[:, None]
    channel = tl.arange(0, BLOCK)[None, :]
    inside = (head < heads) & (channel < HEAD_SIZE)
    place = head * HEAD_SIZE + channel
    u = tl.load(x + row + place, mask=inside, other=0.0).to(tl.float32)
    if FUSED:
        u += tl.load(residual + row + place, mask=inside, other=0.0).to(tl.float32)
        stored = u.to(residual_out.dtype.element_ty)
        tl.store(residual_out + row + place, stored, mask=inside)
        u = stored.to(tl.float32)
    gain = tl.load(gamma + place, mask=inside, other=0.0).to(tl.float32)
    if FUSED:
        dot = tl.sum(u * tl.load(beta + place, mask=inside, other=0.0).to(tl.float32), axis=1, keep_dims=True)
        seed = 2.0 * tl.sigmoid(2.0 * dot) - 1.0
        gain += seed * tl.load(alpha + place, mask=inside, other=0.0).to(tl.float32)
    inv_rms = tl.rsqrt(tl.sum(u * u, axis=1, keep_dims=True) / HEAD_SIZE + eps)
    tl.store(y + row + place, (u * inv_rms * gain).to(y.dtype.element_ty), mask=inside)


def configurations(heads, head_size):
    """(heads of a program, warps): programs of some sizes with 16 and 8 elements a thread; the caller takes the fastest."""
    block = triton.next_power_of_2(head_size)
    tiles = {max(1, min(triton.next_power_of_2(heads), elements // block)) for elements in (1024, 2048, 4096)}
    return sorted({(tile, min(16, max(1, tile * block // (32 * each)))) for tile in tiles for each in (16, 8)})


def norm(operands, head_size, eps, configuration):
    rows, width = operands.x.shape
    heads, (tile, warps) = width // head_size, configuration
    fused = operands.residual is not None
    absent = operands.x  # never touched
    _norm[(rows, triton.cdiv(heads, tile))](
        operands.x, operands.residual if fused else absent, operands.gamma, operands.alpha if fused else absent,
        operands.beta if fused else absent, operands.y, operands.residual_out if fused else absent, heads, eps, HEAD_SIZE=head_size,
        BLOCK=triton.next_power_of_2(head_size), TILE=tile, FUSED=fused, num_warps=warps)
    return operands.y, operands.residual_out
