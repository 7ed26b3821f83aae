// SPDX-License-Identifier: Apache-2.0
// What a program's start costs, step by step: each sample is a process of its own, and there is a
// pause between them, in which a worker can become warm.
//   --samples N      how many
//   --pause MS       how long, 500 if not given
//   --before N       starts before those, without pauses, that aren't measured: what the guest's
//   kernel never used before it
//                    gets from the host at its first use
//   --touch MIB      before that, have the mover register so much of the guest's RAM, and what lies
//   between
//   --torch PYTHON   also import torch in that Python, up to a first result
#include "bench.h"
#include <dlfcn.h>
#include <sys/wait.h>
#include <string>

__global__ void first(int *x) { *x = 42; }

typedef int (*Init)(unsigned);
typedef int (*Get)(int *, int);
typedef int (*Retain)(void **, int);

static void must(bool good, const char *what) {
    if (!good) fprintf(stderr, "start: %s\n", what), exit(1);
}

// child starts CUDA step by step and prints what each took, in milliseconds.
static int child() {
    const double begin = now();
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    must(library, "there is no libcuda.so.1");
    const double loaded = now();
    int device;
    void *context;
    must(!((Init)dlsym(library, "cuInit"))(0), "cuInit ended with an error");
    const double inited = now();
    must(!((Get)dlsym(library, "cuDeviceGet"))(&device, 0), "cuDeviceGet ended with an error");
    must(!((Retain)dlsym(library, "cuDevicePrimaryCtxRetain"))(&context, device),
         "there is no context");
    const double made = now();
    int x = 0, *dev;
    CHECK(cudaMalloc(&dev, sizeof x));
    const double allocated = now();
    first<<<1, 1>>>(dev);
    CHECK(cudaGetLastError());
    const double launched = now();
    CHECK(cudaMemcpy(&x, dev, sizeof x, cudaMemcpyDeviceToHost));
    must(x == 42, "wrong data");
    const double end = now();
    for (const double step : {loaded - begin, inited - loaded, made - inited, allocated - made,
                              launched - allocated, end - launched})
        printf("%g ", step / 1000);
    return 0;
}

// output runs a command and returns what it printed, and its milliseconds.
static std::string output(const std::string &command, double *ms) {
    const double begin = now();
    FILE *pipe = popen(command.c_str(), "r");
    must(pipe, "there is no pipe");
    char text[256];
    const size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = 0;
    must(pclose(pipe) == 0, command.c_str());
    *ms = (now() - begin) / 1000;
    return text;
}

// touchMemory copies ordinary memory to the device, in a process that has ended when it returns.
static void touchMemory(size_t bytes) {
    const pid_t child = fork();
    if (!child) {
        const size_t piece = size_t(64) << 20;
        char *host = (char *)malloc(bytes), *dev;
        CHECK(cudaMalloc(&dev, piece));
        for (size_t at = 0; at + piece <= bytes; at += piece) {
            memset(host + at, 1, piece);
            CHECK(cudaMemcpy(dev, host + at, piece, cudaMemcpyHostToDevice));
        }
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child && status == 0,
         "the child that copies ended with an error");
}

static void torch(const char *python) {
    const std::string script = "import time; a=time.time(); import torch; b=time.time(); "
                               "x=torch.ones(64,64,device=\"cuda\"); "
                               "assert float((x@x).sum())==64.0**3; c=time.time(); print(b-a,c-b)";
    double ms, import, result_;
    const std::string said = output(std::string(python) + " -c '" + script + "'", &ms);
    must(sscanf(said.c_str(), "%lf %lf", &import, &result_) == 2, said.c_str());
    result("torch.import", import, "s");
    result("torch.first", result_, "s");
    result("torch.total", ms / 1000, "s");
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--child")) return child();
    machine();
    if (const int mib = option(argc, argv, "--touch", 0)) touchMemory(size_t(mib) << 20);
    double ms;
    for (int i = 0; i < option(argc, argv, "--before", 0); i++)
        output(std::string("exec ") + argv[0] + " --child", &ms);
    enum { LOAD, INIT, CONTEXT, MALLOC, LAUNCH, COPY, STEPS };
    std::vector<double> step[STEPS], rest, total, both, first;
    for (int i = 0; i < option(argc, argv, "--samples", 5); i++) {
        usleep(1000 * option(argc, argv, "--pause", 500));
        double t[STEPS], sum = 0;
        const std::string said = output(std::string("exec ") + argv[0] + " --child", &ms);
        must(sscanf(said.c_str(), "%lf %lf %lf %lf %lf %lf", t, t + 1, t + 2, t + 3, t + 4,
                    t + 5) == STEPS,
             "the child said nothing");
        for (int s = 0; s < STEPS; s++) step[s].push_back(t[s]), sum += t[s];
        both.push_back(t[INIT] + t[CONTEXT]), first.push_back(t[MALLOC] + t[LAUNCH] + t[COPY]);
        rest.push_back(ms - sum), total.push_back(ms);
    }
    const char *name[STEPS] = {"load", "cuinit", "context", "malloc", "launch", "copy"};
    for (int s = 0; s < STEPS; s++) result(name[s], median(step[s]), "ms");
    result("cuinit+context", median(both), "ms");
    result("firstlaunch", median(first), "ms");
    result("process", median(rest), "ms"); // its beginning and end
    result("program", median(total), "ms");
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--torch")) torch(argv[i + 1]);
}
