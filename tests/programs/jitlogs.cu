// SPDX-License-Identifier: Apache-2.0
// What the compiler of PTX says, in the buffers of those who ask, and never a byte beyond them.
#include "driver.h"
#include <string>
#include <vector>

static const char good[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                           ".visible .entry first() { ret; }\n.visible .entry second() { ret; }\n";
static const char broken[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry kernel()\n{\n\t.reg .u32 %a;\n\tadd.u32 %a, %a, %nothing;\n\tret;\n}\n";
static const char undefined[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.extern .func missing();\n"
    ".visible .entry kernel()\n{\n\tcall missing;\n\tret;\n}\n";

// Log is a buffer with guard bytes around it.
struct Log {
    std::vector<char> bytes;
    size_t size;
    explicit Log(size_t n) : bytes(n + 64, 'x'), size(n) {}
    char *at() { return bytes.data() + 32; }
    std::string text(size_t used) {
        REQUIRE(used <= size);
        REQUIRE(allBytes(bytes.data(), 'x', 32) && allBytes(at() + size, 'x', 32));
        const void *end = memchr(at(), 0, size);
        return end ? std::string(at()) : std::string();
    }
};

struct Result {
    CUresult code;
    std::string info, error;
};

enum Way { module_, library, linker };

static Result load(Way way, const char *ptx, size_t infoBytes, size_t errorBytes, bool verbose) {
    Log info(infoBytes), error(errorBytes);
    float none = -1;
    void *time = nullptr;
    memcpy(&time, &none, sizeof none);
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_LOG_VERBOSE,      CU_JIT_WALL_TIME};
    void *values[] = {info.at(),          (void *)infoBytes,       error.at(),
                      (void *)errorBytes, (void *)(size_t)verbose, time};
    Result r;
    CUmodule m;
    CUlibrary lib;
    CUlinkState link;
    switch (way) {
    case module_:
        r.code = cuModuleLoadDataEx(&m, ptx, 6, options, values);
        if (!r.code) CHECKCU(cuModuleUnload(m));
        break;
    case library:
        r.code = cuLibraryLoadData(&lib, ptx, options, values, 6, nullptr, nullptr, 0);
        if (!r.code) CHECKCU(cuLibraryUnload(lib));
        break;
    case linker:
        CHECKCU(cuLinkCreate(6, options, values, &link));
        r.code = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)ptx, strlen(ptx) + 1, "text", 0,
                               nullptr, nullptr);
        void *image;
        size_t size;
        if (!r.code) r.code = cuLinkComplete(link, &image, &size);
        CHECKCU(cuLinkDestroy(link));
    }
    r.info = info.text((size_t)values[1] & 0xffffffff);
    r.error = error.text((size_t)values[3] & 0xffffffff);
    float ms;
    memcpy(&ms, &values[5], sizeof ms);
    if (way == module_ && !r.code) REQUIRE(ms >= 0 && ms < 1e6f);
    return r;
}

static void expect(const char *what, bool holds, const Result &r) {
    if (holds) return;
    printf("%s: %s\ninfo: %s\nerror: %s\n", what, name(r.code), r.info.c_str(), r.error.c_str());
    exit(1);
}

int main() {
    setenv("CUDA_CACHE_DISABLE", "1", 1);  // from the cache code comes without a word
    openDevice();
    const size_t large = 8 << 20;
    const char *names[] = {"cuModuleLoadDataEx", "cuLibraryLoadData", "cuLinkCreate"};
    for (int way = 0; way < 3; way++) {
        Result r = load((Way)way, good, 4096, 4096, true);
        expect(names[way], r.code == CUDA_SUCCESS && r.error.empty(), r);
        if (way == library) {  // whether it compiles at once is the driver's choice
            for (size_t size : {size_t(1), size_t(100), large})
                for (const char *ptx : {broken, good}) {
                    r = load(library, ptx, size, size, true);
                    expect("a library",
                           r.code == CUDA_SUCCESS ||
                               (ptx == broken && r.code == CUDA_ERROR_INVALID_PTX),
                           r);
                }
            printf("%s: logs\n", names[way]);
            continue;
        }
        expect("entries",
               r.info.find("'first'") != r.info.npos && r.info.find("'second'") != r.info.npos, r);
        r = load((Way)way, broken, 4096, 4096, true);
        expect(names[way], r.code == CUDA_ERROR_INVALID_PTX, r);
        expect("line",
               r.error.find("line 7") != r.error.npos && r.error.find("%nothing") != r.error.npos,
               r);
        r = load((Way)way, undefined, 4096, 4096, false);
        expect(names[way], r.code != CUDA_SUCCESS && r.error.find("missing") != r.error.npos, r);
        // Whatever the size, the code is the same, and nothing else is written. (Driver 580 ends a
        // text of no bytes with a NUL.)
        for (size_t size : {size_t(1), size_t(2), size_t(16), size_t(100), large}) {
            r = load((Way)way, broken, size, size, true);
            expect("a broken text", r.code == CUDA_ERROR_INVALID_PTX, r);
            expect("as much of it as fits", size < 100 || !r.error.empty(), r);
            r = load((Way)way, good, size, 1, true);
            expect("a good text", r.code == CUDA_SUCCESS && r.error.empty(), r);
        }
        printf("%s: logs\n", names[way]);
    }
    CUmodule m;
    REPORTCU(cuModuleLoadDataEx(&m, good, 0, nullptr, nullptr));
    REPORTCU(cuModuleLoadDataEx(&m, broken, 0, nullptr, nullptr));
    CUjit_option none = (CUjit_option)1000;
    void *value = nullptr;
    REPORTCU(cuModuleLoadDataEx(&m, good, 1, &none, &value));
    return 0;
}
