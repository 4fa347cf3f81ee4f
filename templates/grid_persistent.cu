  // As many blocks as the device holds at a time, each of which goes through several tiles.
  int device = 0, multiprocessors = 0, resident = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, {{entry}}, kBlockThreads, kDynamicSharedBytes);
  if (error != cudaSuccess) return error;
  const long long most = static_cast<long long>(multiprocessors) * (resident > 0 ? resident : 1){{per_cluster}};
  const unsigned blocks = static_cast<unsigned>(tiles < most ? tiles : most){{times_cluster}};
