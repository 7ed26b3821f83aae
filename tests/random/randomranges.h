// SPDX-License-Identifier: Apache-2.0
// What random calls have made of memory, and its names.
#ifndef RANDOMRANGES_H
#define RANDOMRANGES_H

#include "randomcalls.h"

struct Memory {
    char kind; // d device, h host, r registered, m managed, a asynchronous
    uint64_t base, bytes;
};
struct Mapping {
    CUdeviceptr base;
    size_t bytes, used;
    CUmemGenericAllocationHandle handle;
};

static std::vector<Memory> ranges;
static std::vector<Mapping> mappings;
static std::vector<CUmemGenericAllocationHandle> handles;
static std::vector<CUmemoryPool> pools;
static std::vector<CUarray> arrays;
static CUcontext context;
static CUstream stream;
static CUmemoryPool usual;
static unsigned made;
static char *plain;
static const size_t granule = 2 << 20, plainBytes = 1 << 16;

static std::string fresh(const char *kind) { return kind + std::to_string(made++); }

static void enter(char kind, uint64_t base, uint64_t bytes) {
    std::string s = fresh(std::string(1, kind).c_str());
    ranges.push_back({kind, base, bytes});
    region(base, bytes, s);
    also("%s", s.c_str());
}

template <typename T> static T named(T handle, const char *kind) {
    std::string s = fresh(kind);
    names[(const void *)(uintptr_t)handle] = s;
    also("%s", s.c_str());
    return handle;
}
static const char *hn(CUmemGenericAllocationHandle h) { return NM((void *)(uintptr_t)h); }

#endif
