"""A generated kernel launched through the CUDA driver from Python, by FILE.launch.json: in the context that is current, PyTorch's say."""

import ctypes
import json
import pathlib

OPT_IN_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


class CudaError(Exception):
    pass


class Driver:
    def __init__(self, library="libcuda.so.1"):
        self._library = ctypes.CDLL(library)
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'error').decode()} ({status})")


class Kernel:
    """Loaded into the current context; lives as long as the process."""

    def __init__(self, driver, ptx_file, launch_file):
        self._driver = driver
        self._launch = json.loads(pathlib.Path(launch_file).read_text(encoding="utf-8"))
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(pathlib.Path(ptx_file).read_bytes()))
        driver.call("cuModuleGetFunction", ctypes.byref(self._function), module, self._launch["entry"].encode())
        self._threads, self._shared = self._launch["block"][0], self._launch["dynamic_shared_bytes"]
        if self._shared > 0:
            driver.call("cuFuncSetAttribute", self._function, OPT_IN_SHARED, self._shared)
        self._resident_blocks = self._count_resident_blocks() if self._launch["grid"]["form"] == "persistent" else None

    def _count_resident_blocks(self):
        device, units, blocks = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._driver.call("cuCtxGetDevice", ctypes.byref(device))
        self._driver.call("cuDeviceGetAttribute", ctypes.byref(units), MULTIPROCESSORS, device)
        self._driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), self._function, self._threads,
                          ctypes.c_size_t(self._shared))
        return units.value * blocks.value

    def blocks(self, rows):
        grid = self._launch["grid"]
        if rows > grid["max_rows_per_launch"]:
            raise CudaError(f"{rows} rows are more than the {grid['max_rows_per_launch']} of one launch")
        tiles = -(-rows // grid["rows_per_tile"]) * grid["tiles_per_row"]
        return tiles if self._resident_blocks is None else min(tiles, self._resident_blocks)

    def launch(self, addresses, width, rows, stream=None):
        """`addresses` by operand ("x", "y", ...); rows are contiguous."""
        values = []
        for parameter in self._launch["parameters"]:
            value = {"pointer": addresses.get(parameter["name"]), "stride": width, "rows": rows}[parameter["kind"]]
            if value is None:
                raise CudaError(f"the kernel has an operand {parameter['name']}, for which there is no address")
            values.append(ctypes.c_uint64(value))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._driver.call("cuLaunchKernel", self._function, self.blocks(rows), 1, 1, self._threads, 1, 1, self._shared,
                          ctypes.c_void_p(stream), pointers, None)
