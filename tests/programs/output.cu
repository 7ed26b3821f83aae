// SPDX-License-Identifier: Apache-2.0
// Where kernels' output goes: into the program's own streams, whatever the program has made of
// them, in order with its own.
#include "check.h"
#include <csignal>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

__global__ void say(int number) { printf("kernel %d\n", number); }

static void synced(int number) {
    say<<<1, 1>>>(number);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}

static std::string content(const char *file) {
    std::string text;
    char piece[4096];
    FILE *f = fopen(file, "r");
    REQUIRE(f != nullptr);
    while (size_t n = fread(piece, 1, sizeof piece, f)) text.append(piece, n);
    fclose(f);
    return text;
}

// Without a flush of the program's: standard output is a file or a pipe here, and its buffer keeps
// the order.
static void inOrder() {
    for (int i = 0; i < 3; i++) {
        printf("program %d\n", i);
        synced(i);
    }
    printf("half a line, ");
    synced(3);
}

static void waysToWait() {
    cudaStream_t stream;
    cudaEvent_t event;
    int *p;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&p, sizeof *p));
    say<<<1, 1, 0, stream>>>(10);
    CHECK(cudaStreamSynchronize(stream));
    printf("after a stream\n");
    say<<<1, 1, 0, stream>>>(11);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    printf("after an event\n");
    int value = 0;
    say<<<1, 1>>>(12);
    CHECK(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost));
    printf("after a copy\n");
    CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaEventDestroy(event));
}

// Standard output is another file for a while, as test frameworks and Jupyter do it.
static void redirected(const char *file) {
    fflush(stdout);
    int saved = dup(1), fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(saved >= 0 && fd >= 0 && dup2(fd, 1) == 1);
    close(fd);
    printf("to the file\n");
    synced(20);
    fflush(stdout);
    REQUIRE(dup2(saved, 1) == 1);
    close(saved);
    REQUIRE(content(file) == "to the file\nkernel 20\n");
    printf("redirected by dup2\n");
    synced(21);
}

// In a child of its own, which the parent makes before it uses CUDA.
static void inChild(const char *what, void (*run)(const char *), const char *file) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        run(file);
        exit(0);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    printf("%s: %d\n", what, status);
}

static void reopened(const char *file) {
    REQUIRE(freopen(file, "w", stdout) != nullptr);
    printf("to the file\n");
    synced(30);
}

static void closed(const char *) {
    fclose(stdout);
    synced(40);
}

// Number 1 is a file of the program's. What a kernel prints must not get into it.
static void taken(const char *file) {
    fclose(stdout);
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    REQUIRE(fd == 1);
    synced(50);
    REQUIRE(write(fd, "mine", 4) == 4);
}

static void unread(const char *) {
    int ends[2];
    REQUIRE(!pipe(ends) && dup2(ends[1], 1) == 1);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    synced(60);
}

// Its buffer would go with the process, had the driver not written it out.
static void unflushed(const char *) {
    printf("written\n");
    synced(70);
    _exit(0);
}

// A kernel that nobody waited for.
static void unawaited(const char *) {
    say<<<1, 1>>>(80);
    _exit(0);
}

static void reset(const char *) {
    say<<<1, 1>>>(90);
    CHECK(cudaDeviceReset());
    printf("after a reset\n");
}

int main() {
    char file[] = "/tmp/output.XXXXXX";
    int fd = mkstemp(file);
    REQUIRE(fd >= 0);
    close(fd);
    inChild("reopened", reopened, file);
    REQUIRE(content(file) == "to the file\nkernel 30\n");
    inChild("closed", closed, file);
    inChild("taken", taken, file);
    REQUIRE(content(file) == "mine");
    inChild("unread", unread, file);
    inChild("unflushed", unflushed, file);
    inChild("unawaited", unawaited, file);
    inChild("reset", reset, file);
    inOrder();
    waysToWait();
    redirected(file);
    unlink(file);
}
