// Where element i of a lane's vector number `chunk` lies in the part: neighbouring lanes take neighbouring vectors.
__device__ __forceinline__ int place(int lane, int chunk, int i) { return (chunk * {{lanes}} + lane) * kVector + i; }

