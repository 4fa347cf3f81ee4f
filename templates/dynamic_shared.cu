  // More than 48 KiB have to be asked for; of each device anew, so that it is done every time.
  const cudaError_t allowed =
      cudaFuncSetAttribute({{entry}}, cudaFuncAttributeMaxDynamicSharedMemorySize, kDynamicSharedBytes);
  if (allowed != cudaSuccess) return allowed;
