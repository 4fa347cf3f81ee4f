  // More than 8 blocks in a cluster have to be asked for, of each device anew: not every device takes them.
  const cudaError_t large = cudaFuncSetAttribute({{entry}}, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (large != cudaSuccess) return large;
