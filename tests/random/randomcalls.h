// SPDX-License-Identifier: Apache-2.0
// What the programs of random calls share: sequences of calls. Each call is printed with its
// arguments, result and outputs, and with names for handles and addresses. So the text is the same
// in every run, and a native run and one in a guest can be compared line by line.
//
//   PROGRAM [SEED [FIRST [COUNT]]]
//
// runs sequences FIRST, FIRST+1, ... of that seed. Each begins with nothing, and destroys what it
// has made.
#pragma once
#include "versions.h"
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

static Random rnd;

inline unsigned below(unsigned n) { return n ? rnd.below(n) : 0; }
// rarely is true one time in n. More calls that fail would hide the rest: every other sequence has
// few of them.
static unsigned calm;
inline bool rarely(unsigned n) { return below(n < 8 ? n : n * calm) == 0; }

template <typename T> const T &pick(const std::vector<T> &v) {
    return v[below((unsigned)v.size())];
}
template <typename T, size_t N> T pick(const T (&v)[N]) { return v[below(N)]; }

// Names of handles and addresses.
struct Region {
    uint64_t bytes;
    std::string name;
};
static std::map<const void *, std::string> names;
static std::map<uint64_t, Region> regions;

template <typename T> std::string nm(T *handle) {
    if (!handle) return "null";
    auto at = names.find((const void *)handle);
    return at == names.end() ? "unknown" : at->second;
}

// where names an address by the region that it lies in.
inline std::string where(uint64_t address) {
    if (!address) return "null";
    auto at = regions.upper_bound(address);
    if (at == regions.begin()) return "elsewhere";
    --at;
    uint64_t offset = address - at->first;
    if (offset > at->second.bytes) return "elsewhere";
    return offset ? at->second.name + "+" + std::to_string(offset) : at->second.name;
}
inline std::string where(const void *p) { return where((uint64_t)p); }

inline void region(uint64_t address, uint64_t bytes, const std::string &name) {
    regions[address] = {bytes, name};
}
inline void region(const void *p, uint64_t bytes, const std::string &name) {
    region((uint64_t)p, bytes, name);
}

// call prints a call before it is made, ended prints its result, and also its outputs.
static bool printing;

__attribute__((format(printf, 1, 2))) inline void call(const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (printing) putchar('\n');
    vprintf(format, list);
    va_end(list);
    printing = true;
}

inline CUresult ended(CUresult r) {
    printf(" = %s", name(r));
    return r;
}

__attribute__((format(printf, 1, 2))) inline void also(const char *format, ...) {
    va_list list;
    va_start(list, format);
    putchar(' ');
    vprintf(format, list);
    va_end(list);
}

inline const char *str(const std::string &s) {
    static std::string kept[16];
    static unsigned next;
    return (kept[next++ % 16] = s).c_str();
}
#define NM(handle) str(nm(handle))
#define WHERE(address) str(where(address))

static void died(int signal) {
    printf(" = SIGNAL %d\n", signal);
    fflush(stdout);
    _exit(100);
}

// sequences runs the program: prepare once, then one for each sequence.
inline int sequences(int argc, char **argv, unsigned count, void (*one)()) {
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1,
             first = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    if (argc > 3) count = (unsigned)atoi(argv[3]);
    for (int s : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) signal(s, died);
    for (unsigned i = first; i < first + count; i++) {
        rnd.state = seed * 1000003ull + i;
        calm = i % 2 ? 5 : 1;
        printf("== %u", i);
        printing = true;
        alarm(20);
        one();
        fflush(stdout);
        if (cuCtxSynchronize() != CUDA_SUCCESS) {
            printf("\nthe context is broken\n");
            return 1;
        }
        putchar('\n');
        printing = false;
    }
    return 0;
}
