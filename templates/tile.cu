// Tiles are numbered along a row first.
__device__ __forceinline__ long long first_row(unsigned tile) {
  return static_cast<long long>(tile / kTilesPerRow) * kRowsPerTile;
}

