// What most tests include, parsed once for all of them. A file includes what it uses all the same.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/precompiled.h"
