  const unsigned blocks = static_cast<unsigned>(tiles{{times_cluster}});
