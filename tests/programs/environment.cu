// SPDX-License-Identifier: Apache-2.0
// What CUDA's environment variables do: the program runs itself with each, since they are read as
// CUDA is initialised.
#include "driver.h"
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

__global__ void twice(int *v) { v[threadIdx.x] *= 2; }

// Computes, and says what it was told.
static void compute() {
    std::vector<int> v(32);
    int *p;
    for (int i = 0; i < 32; i++) v[i] = i;
    CHECK(cudaMalloc(&p, 128));
    CHECK(cudaMemcpy(p, v.data(), 128, cudaMemcpyHostToDevice));
    twice<<<1, 32>>>(p);
    CHECK(cudaMemcpy(v.data(), p, 128, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) REQUIRE(v[i] == 2 * i);
    CHECK(cudaFree(p));
}

static int child(const char *what) {
    int devices = -1;
    CUmoduleLoadingMode mode;
    if (!strcmp(what, "uuid")) {
        CUuuid id;
        CHECKCU(cuInit(0));
        CHECKCU(cuDeviceGetUuid(&id, 0));
        for (unsigned char b : id.bytes) printf("%02x", b);
        return 0;
    }
    CUresult r = cuInit(0);
    printf("%s", name(r));
    if (!strcmp(what, "mode")) {
        CHECKCU(cuModuleGetLoadingMode(&mode));
        printf(", %s", mode == CU_MODULE_EAGER_LOADING  ? "eager"
                       : mode == CU_MODULE_LAZY_LOADING ? "lazy"
                                                        : "?");
    } else {
        cudaError_t e = cudaGetDeviceCount(&devices);
        printf(", %s, %d", cudaGetErrorName(e), devices);
    }
    if (r == CUDA_SUCCESS) {
        compute();
        printf(", computed");
    }
    return 0;
}

// run returns what the program prints where the variable has that value.
static std::string run(const char *what, const char *variable, const char *value) {
    int ends[2], status;
    char text[256];
    REQUIRE(!pipe(ends));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        if (variable && value) setenv(variable, value, 1);
        if (variable && !value) unsetenv(variable);
        execl("/proc/self/exe", "environment", what, (char *)nullptr);
        _exit(127);
    }
    close(ends[1]);
    std::string out;
    while (ssize_t n = read(ends[0], text, sizeof text)) {
        if (n < 0) break;
        out.append(text, n);
    }
    close(ends[0]);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (status) out += ", failed";
    return out;
}

static void report(const char *variable, const char *value, const std::string &got) {
    printf("%s=%s: %s\n", variable, value ? value : "(unset)", got.c_str());
}

// One device is there: what names it twice, or names another first, leaves none.
static void devices(const std::string &uuid) {
    const char *v = "CUDA_VISIBLE_DEVICES";
    std::string full = "GPU-" + uuid.substr(0, 8) + "-" + uuid.substr(8, 4) + "-" +
                       uuid.substr(12, 4) + "-" + uuid.substr(16, 4) + "-" + uuid.substr(20);
    for (const char *value :
         {(const char *)nullptr, "", "0", "-1", "99", "0,99", "0,-1,0", "-1,0", "0,0", "none",
          "GPU-"
          "00000000-0000-0000-0000-000000000000",
          "MIG-GPU-0/1/2"})
        report(v, value, run("count", v, value));
    const struct { const char *what; std::string value;
    } named[] = {{"its UUID", full},
                 {"its UUID cut short", full.substr(0, 12)},
                 {"its UUID and more", full + "0"},
                 {"its UUID, then no device", full + ",99"},
                 {"no device, then its UUID", "99," + full},
                 {"its UUID twice", full + "," + full}};
    for (auto &n : named) report(v, n.what, run("count", v, n.value.c_str()));
}

int main(int argc, char **argv) {
    if (argc > 1) return child(argv[1]);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_MODULE_LOADING");
    devices(run("uuid", nullptr, nullptr));
    for (const char *value : {(const char *)nullptr, "LAZY", "EAGER", "DEFAULT"})
        report("CUDA_MODULE_LOADING", value, run("mode", "CUDA_MODULE_LOADING", value));
    const struct { const char *variable; std::vector<const char *> values; } harmless[] = {
        {"CUDA_DEVICE_ORDER", {"FASTEST_FIRST", "PCI_BUS_ID", "?"}},
        {"CUDA_LAUNCH_BLOCKING", {"0", "1"}},
        {"CUDA_MODULE_DATA_LOADING", {"LAZY", "EAGER"}},
        {"CUDA_BINARY_LOADER_THREAD_COUNT", {"0", "4", "1000000"}},
        {"CUDA_CACHE_DISABLE", {"0", "1"}},
        {"CUDA_CACHE_PATH", {"/nowhere"}},
        {"CUDA_CACHE_MAXSIZE", {"0", "4294967296"}},
        {"CUDA_FORCE_PTX_JIT", {"0", "1"}},
        {"CUDA_FORCE_JIT", {"1"}},
        {"CUDA_FORCE_PRELOAD_LIBRARIES", {"0"}},
        {"CUDA_DEVICE_MAX_CONNECTIONS", {"1", "32", "33", "many"}},
        {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", {"1", "32"}},
        {"CUDA_SCALE_LAUNCH_QUEUES", {"0.25x", "4x", "100x"}},
        {"CUDA_GRAPHS_USE_NODE_PRIORITY", {"0", "1"}},
        {"CUDA_DISABLE_PERF_BOOST", {"0", "1"}},
        {"CUDA_MANAGED_FORCE_DEVICE_ALLOC", {"0", "1"}},
        {"CUDA_LOG_FILE", {"/dev/null"}},
    };
    for (auto &h : harmless)
        for (const char *value : h.values)
            report(h.variable, value, run("count", h.variable, value));
}
