// InsertOnlyMap: a hash map that is read without a lock and without memory of its own, while others insert.
//
// Nothing is removed or changed, so what a reader found stays where it is as long as the map. Readers follow one published table;
// a writer fills free places of it, or publishes a table of twice the size and keeps the old one for those who still read it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace headnorm {

template <class Key, class Value, class Hash>
class InsertOnlyMap {
 public:
  InsertOnlyMap() { publish(kFirstPlaces); }

  // Null if it is not there (yet).
  const Value* find(const Key& key) const {
    const std::size_t hash = Hash{}(key);
    const Table& table = *table_.load(std::memory_order_acquire);
    const std::size_t mask = table.places.size() - 1;
    for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
      // Read once: a place that was free a moment ago may hold another key by now.
      const Node* const node = table.places[i].load(std::memory_order_acquire);
      if (node == nullptr) return nullptr;
      if (node->hash == hash && node->key == key) return &node->value;
    }
  }

  // The value that the key has: this one, or that of whoever came first. Null if the map has `limit` values already.
  const Value* insert(const Key& key, Value value, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    if (const Value* present = find(key)) return present;
    if (nodes_.size() >= limit) return nullptr;
    if (2 * (nodes_.size() + 1) > tables_.back()->places.size()) publish(2 * tables_.back()->places.size());
    nodes_.push_back(std::make_unique<const Node>(Node{Hash{}(key), key, std::move(value)}));
    put(*tables_.back(), *nodes_.back());
    return &nodes_.back()->value;
  }

 private:
  struct Node {
    std::size_t hash;
    Key key;
    Value value;
  };
  using Place = std::atomic<const Node*>;
  struct Table {
    explicit Table(std::size_t count) : places(count) {}
    std::vector<Place> places;  // a power of two, at most half of them taken
  };
  static constexpr std::size_t kFirstPlaces = 64;

  // Into the first free place; the key is not there yet, and nobody else writes.
  static void put(Table& table, const Node& node) {
    const std::size_t mask = table.places.size() - 1;
    std::size_t i = node.hash & mask;
    while (table.places[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
    table.places[i].store(&node, std::memory_order_release);
  }

  void publish(std::size_t places) {
    tables_.push_back(std::make_unique<Table>(places));
    for (const auto& node : nodes_) put(*tables_.back(), *node);
    table_.store(tables_.back().get(), std::memory_order_release);
  }

  std::atomic<const Table*> table_{nullptr};
  std::mutex mutex_;  // of all below, and of the free places
  std::vector<std::unique_ptr<const Node>> nodes_;
  std::vector<std::unique_ptr<Table>> tables_;  // the last is the published one
};

}  // namespace headnorm
