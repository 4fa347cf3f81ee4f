// Launches the kernel on rows [0, rows). Strides are in elements; pointers are the device's. Without rows it does nothing.
extern "C" cudaError_t {{entry}}_launch(
    {{parameters}}) {
  if (rows == 0) return cudaSuccess;
  if (rows < 0 || rows > {{max_rows}}LL) return cudaErrorInvalidValue;
{{checks}}  constexpr int kDynamicSharedBytes = {{dynamic_shared_bytes}};
{{cluster}}{{shared}}  const long long tiles = (rows + kRowsPerTile - 1) / kRowsPerTile * kTilesPerRow;
{{grid}}{{launch}}}
