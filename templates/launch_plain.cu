  {{entry}}<<<blocks, kBlockThreads, kDynamicSharedBytes, stream>>>(
      {{arguments}});
  return cudaGetLastError();
