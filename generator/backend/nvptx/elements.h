// Elements of one lane: arithmetic on f32 values, conversion from and to the
// types in memory, loads and stores.
#pragma once

#include <cstdint>
#include <vector>

#include "generator/backend/nvptx/thread.h"
#include "generator/program/program.h"

namespace headnorm::nvptx {

// A value of a program for the elements of one vector, or a single value per
// thread.
struct Elements {
  std::vector<llvm::Value*> values;  // f32
  // The same values as they stand in memory, where a rounding has made them:
  // storing them needs no second conversion. One for each element, but for bf16
  // an i32 for each pair.
  std::vector<llvm::Value*> rounded;
  Dtype rounded_dtype = Dtype::f32;
  // The same values in pairs (i64), where an operation on pairs has made them.
  std::vector<llvm::Value*> pairs;
};

// Place of a lane's vector within the part.
struct Chunk {
  llvm::Value* offset = nullptr;  // i64 (null: 0), in elements from the lane's
                                  // first vector, to which `more` is added
  std::int64_t more = 0;
  // Whether each granule of the vector lies within the part; empty: all do.
  std::vector<llvm::Value*> inside;
  // Number of the chunk in the part: i32 (null: 0), to which `more_chunks` is
  // added.
  llvm::Value* first = nullptr;
  std::int64_t more_chunks = 0;
};

// Chunk `index` of the lane of `thread`. Only the part's last chunk can reach
// past its end.
Chunk chunk_of_lane(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, std::int64_t index);

// The result of an elementwise operation for one element.
llvm::Value* compute(llvm::IRBuilder<>& ir, const program::Instruction& instruction, const std::array<llvm::Value*, 3>& arguments);
Elements round_elements(llvm::IRBuilder<>& ir, const Elements& elements, Dtype dtype);

// A stretch of `elements` as it stands in memory, and back.
llvm::Value* pack_elements(llvm::IRBuilder<>& ir, const Elements& elements, Dtype dtype, int begin, int end);
llvm::Type* packed_type(llvm::IRBuilder<>& ir, Dtype dtype, int count);
void unpack_elements(llvm::IRBuilder<>& ir, llvm::Value* packed, Dtype dtype, int count, Elements& elements);

// What the caches are told (i64 of make_policy), or null.
struct CachePolicies {
  llvm::Value* rows = nullptr;
  llvm::Value* weights = nullptr;
};
CachePolicies make_policies(const Plan& plan, llvm::IRBuilder<>& ir);

enum class Reading : std::uint8_t {
  again,  // a later sweep reads the same elements
  last,
};

class Memory {
 public:
  Memory(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const CachePolicies& policies)
      : plan_(plan), ir_(ir), thread_(thread), policies_(policies) {}

  llvm::Value* row_policy() const { return policies_.rows; }
  int access_elements(Operand operand) const;
  // Of an element of the vector, at the start of an access.
  llvm::Value* address(Operand operand, const Chunk& chunk, int element) const;

  // A vector as it stands in memory, one value for each access, and what it
  // holds. Elements of granules past the end of the part are valid numbers of
  // no meaning.
  std::vector<llvm::Value*> fetch(Operand operand, const Chunk& chunk, Reading reading);
  Elements unpack(Operand operand, const std::vector<llvm::Value*>& fetched);
  // The weight of the thread's head, of a gamma per head.
  llvm::Value* fetch_of_head(Operand operand);
  llvm::Value* unpack_of_head(Operand operand, llvm::Value* fetched);
  // One granule of the vector.
  void store(Operand operand, const Chunk& chunk, int granule, const Elements& elements);

 private:
  // Of an element, whether it lies within the part or not.
  llvm::Value* place(Operand operand, const Chunk& chunk, int element) const;
  llvm::Value* load_at(Operand operand, llvm::Value* address, int count, Reading reading);

  const Plan& plan_;
  llvm::IRBuilder<>& ir_;
  const Thread& thread_;
  CachePolicies policies_;
};

}  // namespace headnorm::nvptx
