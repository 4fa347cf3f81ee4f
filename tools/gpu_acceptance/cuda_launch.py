"""A generated kernel launched through the CUDA driver from Python, by FILE.launch.json: in the context that is current, PyTorch's say."""

import ctypes
import json
import pathlib

# Numbers of the Driver API.
OPT_IN_SHARED, LARGE_CLUSTER_ALLOWED = 8, 14  # function attributes
MULTIPROCESSORS = 16  # a device attribute
CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6  # launch attributes
PORTABLE_CLUSTER = 8


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(LaunchAttribute)), ("attribute_count", ctypes.c_uint)]


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
        self._cluster = self._launch["cluster"][0]
        if self._shared > 0:
            driver.call("cuFuncSetAttribute", self._function, OPT_IN_SHARED, self._shared)
        if self._cluster > PORTABLE_CLUSTER:
            driver.call("cuFuncSetAttribute", self._function, LARGE_CLUSTER_ALLOWED, 1)
        self._attributes = self._make_attributes()
        self._resident_blocks = self._count_resident_blocks() if self._launch["grid"]["form"] == "persistent" else None

    def _make_attributes(self):
        wanted = []
        if self._cluster > 1:
            wanted.append((CLUSTER_DIMENSION, (self._cluster, 1, 1)))
        if self._launch.get("programmatic_stream_serialization"):
            wanted.append((PROGRAMMATIC_STREAM_SERIALIZATION, (1,)))
        return (LaunchAttribute * len(wanted))(*(LaunchAttribute(name, 0, (ctypes.c_uint * 16)(*value)) for name, value in wanted))

    def _config(self, blocks, stream):
        return LaunchConfig((blocks, 1, 1), (self._threads, 1, 1), self._shared, stream, self._attributes, len(self._attributes))

    def _count_resident_blocks(self):
        count = ctypes.c_int()
        if self._cluster > 1:
            self._driver.call("cuOccupancyMaxActiveClusters", ctypes.byref(count), self._function,
                              ctypes.byref(self._config(self._cluster, None)))
            return count.value * self._cluster
        device, units = ctypes.c_int(), ctypes.c_int()
        self._driver.call("cuCtxGetDevice", ctypes.byref(device))
        self._driver.call("cuDeviceGetAttribute", ctypes.byref(units), MULTIPROCESSORS, device)
        self._driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(count), self._function, self._threads,
                          ctypes.c_size_t(self._shared))
        return units.value * count.value

    def blocks(self, rows):
        grid = self._launch["grid"]
        if rows > grid["max_rows_per_launch"]:
            raise CudaError(f"{rows} rows are more than the {grid['max_rows_per_launch']} of one launch")
        blocks = -(-rows // grid["rows_per_tile"]) * grid["tiles_per_row"] * self._cluster
        return blocks if self._resident_blocks is None else min(blocks, max(self._resident_blocks, self._cluster))

    def launch(self, addresses, width, rows, stream=None):
        """`addresses` by operand ("x", "y", ...); rows are contiguous."""
        values = []
        for parameter in self._launch["parameters"]:
            value = {"pointer": addresses.get(parameter["name"]), "stride": width, "rows": rows}[parameter["kind"]]
            if value is None:
                raise CudaError(f"the kernel has an operand {parameter['name']}, for which there is no address")
            values.append(ctypes.c_uint64(value))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._driver.call("cuLaunchKernelEx", ctypes.byref(self._config(self.blocks(rows), stream)), self._function, pointers, None)
