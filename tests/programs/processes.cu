// SPDX-License-Identifier: Apache-2.0
// Processes that begin and end, with CUDA in them, before them and after them: fork, exec and
// spawn; daemons; threads in calls while the process ends in each of its ways; calls of exit
// handlers and destructors; a libcuda that is opened and closed. It runs itself, with the name of a
// part, wherever a process must not have used CUDA yet.
#include "check.h"
#include <cuda.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

__global__ void add(int *v, int n) { v[threadIdx.x] += n; }

// Computes with everything made anew.
static void compute() {
    std::vector<int> v(64, 7);
    int *p;
    CHECK(cudaMalloc(&p, 256));
    CHECK(cudaMemcpy(p, v.data(), 256, cudaMemcpyHostToDevice));
    add<<<1, 64>>>(p, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(v.data(), p, 256, cudaMemcpyDeviceToHost));
    for (int x : v) REQUIRE(x == 12);
    CHECK(cudaFree(p));
}

// Descriptors that are open, those of the directory that is read left out.
static int descriptors() {
    int n = 0;
    for (int fd = 3; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int wait(pid_t pid) {
    int status;
    pid_t got;
    do got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    REQUIRE(got == pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int inChild(void (*run)()) {
    fflush(stdout);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        run();
        exit(0);
    }
    return wait(pid);
}

static void become(const char *part) {
    execl("/proc/self/exe", "processes", part, (char *)nullptr);
    _exit(127);
}

// self runs a part in a process that begins anew.
static int self(const char *part) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become(part);
    return wait(pid);
}

// CUDA can't be used in a child of a process that uses it, and says so.
static void refused() {
    int *p = nullptr, n;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    auto init = (int (*)(unsigned))dlsym(lib, "cuInit");
    auto count = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
    int got[] = {cudaMalloc((void **)&p, 4), cudaDeviceSynchronize(), init(0), count(&n)};
    for (int i = 0; i < 4; i++)
        if (got[i] != cudaErrorInitializationError) _exit(100 + i);
    add<<<1, 64>>>(p, 5);
    if (cudaGetLastError() == cudaSuccess) _exit(99);
}

static void forks() {
    printf("a child before CUDA: %d\n", inChild(compute));
    int *p, v[64];
    CHECK(cudaMalloc(&p, 256));
    CHECK(cudaMemset(p, 0, 256));
    printf("a child of a process that uses CUDA: %d\n", inChild(refused));
    printf("its program: %d\n", inChild([] { become("compute"); }));
    pid_t pid = vfork();
    if (pid == 0) become("compute");
    printf("after vfork: %d\n", wait(pid));
    char part[] = "compute", name[] = "processes", *argv[] = {name, part, nullptr};
    REQUIRE(!posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, argv, environ));
    printf("spawned: %d\n", wait(pid));
    std::string command = "exec " + std::string(realpath("/proc/self/exe", nullptr)) + " compute";
    printf("by a shell: %d\n", WEXITSTATUS(system(command.c_str())));
    fflush(stdout);
    // Many children while the parent goes on computing.
    std::vector<pid_t> all;
    for (int i = 0; i < 8; i++) {
        pid = fork();
        if (pid == 0) {
            refused();
            exit(0);  // with the handlers of a process that used CUDA
        }
        all.push_back(pid);
        add<<<1, 64>>>(p, 1);
    }
    for (pid_t child : all) REQUIRE(wait(child) == 0);
    CHECK(cudaMemcpy(v, p, 256, cudaMemcpyDeviceToHost));
    for (int x : v) REQUIRE(x == 8);
    CHECK(cudaFree(p));
    compute();
    printf("the parent goes on\n");
}

// A process with a context becomes another program.
static void execs() {
    int before = descriptors();
    compute();
    char text[16];
    snprintf(text, sizeof text, "%d", before);
    execl("/proc/self/exe", "processes", "clean", text, (char *)nullptr);
    _exit(127);
}

static void clean(int before) {
    REQUIRE(descriptors() == before);
    compute();
}

// A daemon: its parents are gone when it begins to use CUDA.
static void daemonize() {
    int ends[2];
    char text[32] = "";
    REQUIRE(!pipe(ends));
    int status = inChild([] {
        if (fork()) _exit(0);
        setsid();
        if (fork()) _exit(0);
        while (getppid() == getpgrp()) usleep(1000);
        compute();
        REQUIRE(write(4, "computed", 8) == 8);  // the pipe's end: see below
        _exit(0);
    });
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    printf("a daemon: %d, %s\n", status, n > 0 ? text : "nothing");
    close(ends[0]);
}

// The driver API, by name: threads that are in calls of the runtime while the process ends find its
// state destroyed.
struct Driver {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    template <typename F> F get(F, const char *name) {
        F f = (F)dlsym(lib, name);
        REQUIRE(f != nullptr);
        return f;
    }
};
#define DRIVER(name, symbol) auto name = Driver().get((decltype(&::name))nullptr, symbol)

static const char ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry kernel() { ret; }\n";
static std::atomic<int> working;
static CUcontext context;
static CUfunction kernel;

// Whatever the calls return once the process ends, none of them may crash or keep it from ending.
static void *work(void *kind) {
    DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent");
    DRIVER(cuStreamCreate, "cuStreamCreate");
    DRIVER(cuStreamSynchronize, "cuStreamSynchronize");
    DRIVER(cuStreamQuery, "cuStreamQuery");
    DRIVER(cuMemAlloc, "cuMemAlloc_v2");
    DRIVER(cuMemFree, "cuMemFree_v2");
    DRIVER(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
    DRIVER(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
    DRIVER(cuLaunchKernel, "cuLaunchKernel");
    CUstream stream;
    CUdeviceptr device, other;
    std::vector<char> pageable(4 << 20);
    REQUIRE(!cuCtxSetCurrent(context) && !cuStreamCreate(&stream, 0) &&
            !cuMemAlloc(&device, pageable.size()));
    working++;
    for (;;) {
        switch ((long)kind) {
        case 0:
            cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
            cuStreamSynchronize(stream);
            break;
        case 1:
            cuMemcpyHtoDAsync(device, pageable.data(), pageable.size(), stream);
            cuStreamQuery(stream);
            cuMemcpyDtoH(pageable.data(), device, 1000);
            break;
        default:
            if (!cuMemAlloc(&other, 1000)) cuMemFree(other);
        }
    }
}

static void open() {
    DRIVER(cuInit, "cuInit");
    DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent");
    DRIVER(cuModuleLoadData, "cuModuleLoadData");
    DRIVER(cuModuleGetFunction, "cuModuleGetFunction");
    CUmodule module;
    REQUIRE(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
    REQUIRE(!cuModuleLoadData(&module, ptx) && !cuModuleGetFunction(&kernel, module, "kernel"));
}

static void terminate(int) { exit(21); }

static void *leave(void *) {
    usleep(20000);
    exit(22);
}

static int ending(const char *how) {
    pthread_t thread;
    open();
    for (long i = 0; i < 3; i++) REQUIRE(!pthread_create(&thread, nullptr, work, (void *)i));
    while (working < 3) usleep(1000);
    usleep(10000);
    if (!strcmp(how, "return")) return 11;
    if (!strcmp(how, "exit")) exit(12);
    if (!strcmp(how, "_exit")) _exit(13);
    if (!strcmp(how, "quick_exit")) quick_exit(14);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "terminated")) raise(SIGTERM);
    if (!strcmp(how, "killed")) raise(SIGKILL);
    if (!strcmp(how, "handler")) {
        signal(SIGTERM, terminate);
        kill(getpid(), SIGTERM);
        for (;;) pause();
    }
    if (!strcmp(how, "pthread_exit")) {
        REQUIRE(!pthread_create(&thread, nullptr, leave, nullptr));
        pthread_exit(nullptr);
    }
    return 99;
}

static void endings() {
    const struct { const char *how; int status;
    } ways[] = {{"return", 11},     {"exit", 12},    {"_exit", 13},
                {"quick_exit", 14}, {"abort", 134},  {"terminated", 143},
                {"killed", 137},    {"handler", 21}, {"pthread_exit", 22}};
    for (auto &way : ways)
        for (int i = 0; i < 3; i++) {
            std::string part = "end-" + std::string(way.how);
            int status = self(part.c_str());
            if (status != way.status) printf("%s: %d\n", way.how, status);
        }
    printf("threads in calls while the process ends\n");
}

// Handlers and destructors that call CUDA: it works, or says that it is over.
static int *kept;

static void atTheEnd(const char *where) {
    int v[64];
    cudaError_t e[] = {cudaMemcpy(v, kept, 256, cudaMemcpyDeviceToHost), cudaDeviceSynchronize(),
                       cudaFree(kept)};
    for (cudaError_t x : e)
        if (x != cudaSuccess && x != cudaErrorCudartUnloading && x != cudaErrorInvalidValue) {
            printf("%s: %s\n", where, cudaGetErrorName(x));
            fflush(stdout);
            _exit(1);
        }
}

static void handler() { atTheEnd("a handler of exit"); }

struct Late {
    const char *where;
    bool armed = false;
    ~Late() {
        if (armed) atTheEnd(where);
    }
};
static Late late{"a static destructor"};

static int handlers() {
    static Late inside{"a destructor in a function"};
    static thread_local Late local{"a thread's destructor"};
    atexit(handler);
    CHECK(cudaMalloc(&kept, 256));
    CHECK(cudaMemset(kept, 1, 256));
    late.armed = inside.armed = local.armed = true;
    atexit(handler);
    return 31;
}

// The driver API without being linked to it.
static void opened() {
    int before = descriptors();
    for (int i = 0; i < 3; i++) {
        void *lib = dlopen("libcuda.so.1", i == 1 ? RTLD_NOW | RTLD_GLOBAL : RTLD_LAZY);
        REQUIRE(lib != nullptr);
        if (i == 0) REQUIRE(descriptors() == before);  // only cuInit begins anything
        auto init = (int (*)(unsigned))dlsym(lib, "cuInit");
        auto count = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
        auto retain = (int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain");
        auto set = (int (*)(void *))dlsym(lib, "cuCtxSetCurrent");
        auto alloc = (int (*)(unsigned long long *, size_t))dlsym(lib, "cuMemAlloc_v2");
        auto release = (int (*)(unsigned long long))dlsym(lib, "cuMemFree_v2");
        int n = 0;
        void *context;
        unsigned long long p;
        REQUIRE(init && count && retain && set && alloc && release);
        REQUIRE(!init(0) && !count(&n) && n > 0 && !retain(&context, 0) && !set(context));
        REQUIRE(!alloc(&p, 1000) && !release(p));
        dlclose(lib);
    }
    compute();
}

static int part(const char *name, const char *argument) {
    if (!strncmp(name, "end-", 4)) return ending(name + 4);
    if (!strcmp(name, "compute")) compute();
    else if (!strcmp(name, "forks")) forks();
    else if (!strcmp(name, "execs")) execs();
    else if (!strcmp(name, "clean")) clean(atoi(argument));
    else if (!strcmp(name, "handlers")) return handlers();
    else if (!strcmp(name, "opened")) opened();
    else return 98;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) return part(argv[1], argc > 2 ? argv[2] : "");
    REQUIRE(self("forks") == 0);
    printf("a program after another in one process: %d\n", self("execs"));
    daemonize();
    endings();
    printf("calls of handlers and destructors: %d\n", self("handlers"));
    printf("the library is opened and closed: %d\n", self("opened"));
    compute();
    return 0;
}
