"""Tensors as .npy files, random operands, and the comparison of two stored results; the standard library alone.

A tensor's elements are held as their bit patterns: bf16 and f16 as 16-bit, f32 as 32-bit numbers.
"""

import array
import ast
import dataclasses
import math
import random
import struct

MAGIC = b"\x93NUMPY\x01\x00"
DESCRIPTIONS = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}
BITS = {"f32": 32, "f16": 16, "bf16": 16}
CODES = {32: "I", 16: "H"}


@dataclasses.dataclass
class Tensor:
    dtype: str
    shape: tuple
    bits: array.array

    def width(self):
        return self.shape[-1]


def to_bits(value, dtype):
    """Rounded to nearest even."""
    if dtype == "f16":
        return struct.unpack("<H", struct.pack("<e", value))[0]
    word = struct.unpack("<I", struct.pack("<f", value))[0]
    if dtype == "f32":
        return word
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16


def to_float(bits, dtype):
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits if dtype == "f32" else bits << 16))[0]


def make_tensor(values, shape, dtype):
    return Tensor(dtype, tuple(shape), array.array(CODES[BITS[dtype]], (to_bits(value, dtype) for value in values)))


def write(path, tensor):
    header = repr({"descr": DESCRIPTIONS[tensor.dtype], "fortran_order": False, "shape": tensor.shape})
    header += " " * (-(len(MAGIC) + 2 + len(header) + 1) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(MAGIC + struct.pack("<H", len(header)) + header.encode("ascii") + tensor.bits.tobytes())


def read(path, dtype):
    """ValueError: the file is no tensor of this dtype."""
    with open(path, "rb") as file:
        content = file.read()
    if content[:8] != MAGIC:
        raise ValueError(f"{path} is no .npy file of version 1.0")
    length = struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:10 + length].decode("ascii"))
    if header["descr"] != DESCRIPTIONS[dtype] or header["fortran_order"]:
        raise ValueError(f"{path} holds {header['descr']}, not {DESCRIPTIONS[dtype]} in C order")
    bits = array.array(CODES[BITS[dtype]])
    bits.frombytes(content[10 + length:])
    if len(bits) != math.prod(header["shape"]):
        raise ValueError(f"{path} holds {len(bits)} elements; its shape is {header['shape']}")
    return Tensor(dtype, tuple(header["shape"]), bits)


def activations(rows, width, dtype, seed):
    """As wide transformers have them: normal numbers, one channel in 256 a hundred times larger, every fifth row tiny."""
    generator = random.Random(seed)
    loud = set(generator.sample(range(width), max(1, width // 256)))
    values = (generator.gauss(0, 1) * (100 if channel in loud else 1) * (2.0**-12 if row % 5 == 4 else 1)
              for row in range(rows) for channel in range(width))
    return make_tensor(values, (rows, width), dtype)


def weights(width, dtype, seed, mean, deviation):
    generator = random.Random(seed)
    return make_tensor((generator.gauss(mean, deviation) for _ in range(width)), (width,), dtype)


def _ordered(bits, dtype):
    """Whole numbers in the order of the values: neighbours differ by one, and the two zeros are one."""
    sign = 1 << BITS[dtype] - 1
    return sign - bits if bits >= sign else bits


def _is_nan(bits, dtype):
    exponent, mantissa = {"f32": (0x7F800000, 0x7FFFFF), "f16": (0x7C00, 0x3FF), "bf16": (0x7F80, 0x7F)}[dtype]
    return bits & exponent == exponent and bits & mantissa != 0


@dataclasses.dataclass
class Difference:
    elements: int
    unequal: int  # in any bit
    largest_ulp: int
    at: tuple  # row and channel of the largest
    values: tuple  # the two, there


def compare(one, other):
    """ValueError: other shapes. A NaN against a number counts as further than any ulp."""
    if one.shape != other.shape or one.dtype != other.dtype:
        raise ValueError(f"{one.dtype} {one.shape} is compared with {other.dtype} {other.shape}")
    dtype, largest, place, unequal = one.dtype, 0, 0, 0
    for index, (a, b) in enumerate(zip(one.bits, other.bits)):
        if a == b:
            continue
        nans = _is_nan(a, dtype) + _is_nan(b, dtype)
        if nans == 2:
            continue
        unequal += 1
        distance = 1 << BITS[dtype] if nans else abs(_ordered(a, dtype) - _ordered(b, dtype))
        if distance > largest:
            largest, place = distance, index
    width = one.width() or 1
    values = (to_float(one.bits[place], dtype), to_float(other.bits[place], dtype)) if one.bits else ()
    return Difference(len(one.bits), unequal, largest, (place // width, place % width), values)
