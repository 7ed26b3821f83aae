// SPDX-License-Identifier: Apache-2.0
// Two processes train one model together, each on a GPU and on half of the samples: after each step
// they add up their gradients in a ring, over TCP. Without arguments both are on this machine; with
// a rank, 0 or 1, and the address and port of rank 0, this is one of the two, and the other one is
// elsewhere. In the end both have the weights that one process has which trains alone.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include "check.h"

static const int samples = 32, weights = 2048, steps = 10, block = 32;
static const float rate = 1.0f / weights;

typedef std::vector<float> Vector;

// How far the model is off for each sample.
static __global__ void miss(float *off, const float *x, const float *y, const float *w) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = -y[i];
    for (int j = 0; j < weights; j++) sum += x[i * weights + j] * w[j];
    off[i] = sum;
}

static __global__ void slope(float *g, const float *x, const float *off) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < samples; i++) sum += off[i] * x[i * weights + j];
    g[j] = sum;
}

static __global__ void move(float *w, const float *g) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    w[j] -= rate * g[j];
}

static float *room(int n) {
    void *p;
    CHECK(cudaMalloc(&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return (float *)p;
}

static float *put(const Vector &v) {
    float *p = room(int(v.size()));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

static Vector get(const float *p, int n) {
    Vector v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost));
    return v;
}

// Part is a rank's half of the samples, on the GPU.
struct Part {
    float *x, *y, *off = room(samples), *g = room(weights);

    explicit Part(int rank) {
        Random truth{7}, random{uint64_t(100 + rank)};
        Vector values(samples * weights), results(samples), w(weights);
        for (float &v : w) v = float(int(truth.below(9)) - 4);
        for (float &v : values) v = float(int(random.below(3)) - 1);
        for (int i = 0; i < samples; i++)
            for (int j = 0; j < weights; j++) results[i] += values[i * weights + j] * w[j];
        x = put(values), y = put(results);
    }
    Vector gradient(const float *w) {
        miss<<<samples / block, block>>>(off, x, y, w);
        slope<<<weights / block, block>>>(g, x, off);
        CHECK(cudaGetLastError());
        return get(g, weights);
    }
    float loss() const {
        float sum = 0;
        for (float v : get(off, samples)) sum += v * v;
        return sum;
    }
};

static void step(float *w, const Vector &g) {
    float *there = put(g);
    move<<<weights / block, block>>>(w, there);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(there));
}

static Vector alone() {
    Part first(0), second(1);
    float *w = room(weights);
    for (int i = 0; i < steps; i++) {
        Vector g = first.gradient(w), more = second.gradient(w);
        for (int j = 0; j < weights; j++) g[j] += more[j];
        step(w, g);
    }
    return get(w, weights);
}

// exchange sends and receives as many bytes at the same time.
static void exchange(int line, const void *out, void *in, size_t bytes) {
    size_t sent = 0, got = 0;
    while (sent < bytes || got < bytes) {
        pollfd p = {line, short((got < bytes ? POLLIN : 0) | (sent < bytes ? POLLOUT : 0)), 0};
        REQUIRE(poll(&p, 1, -1) == 1);
        if (p.revents & POLLOUT) {
            const ssize_t n = send(line, (const char *)out + sent, bytes - sent,
                                   MSG_DONTWAIT | MSG_NOSIGNAL);
            REQUIRE(n > 0);
            sent += n;
        }
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
            const ssize_t n = recv(line, (char *)in + got, bytes - got, MSG_DONTWAIT);
            REQUIRE(n > 0);
            got += n;
        }
    }
}

// allReduce adds up what both have: each adds up one half, and gives it to the other.
static void allReduce(int line, int rank, Vector &v) {
    const size_t half = v.size() / 2, bytes = half * sizeof(float);
    float *mine = v.data() + rank * half, *others = v.data() + (1 - rank) * half;
    Vector came(half);
    exchange(line, others, came.data(), bytes);
    for (size_t i = 0; i < half; i++) mine[i] += came[i];
    exchange(line, mine, others, bytes);
}

static void train(int line, int rank) {
    int devices, one = 1;
    setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
    Part part(rank);
    float *w = room(weights), first = 0;
    for (int i = 0; i < steps; i++) {
        Vector g = part.gradient(w);
        if (i == 0) first = part.loss();
        allReduce(line, rank, g);
        step(w, g);
    }
    const Vector is = get(w, weights);
    Vector others(weights);
    exchange(line, is.data(), others.data(), weights * sizeof(float));
    printf("the loss has fallen: %s\n", part.loss() < first / 100 ? "yes" : "no");
    printf("the other has the same weights: %s\n", is == others ? "yes" : "no");
    printf("so has one alone: %s\n", is == alone() ? "yes" : "no");
    fflush(stdout);
}

static sockaddr_in place(const char *address, int port) {
    sockaddr_in a = {};
    a.sin_family = AF_INET;
    a.sin_port = htons(uint16_t(port));
    REQUIRE(inet_pton(AF_INET, address, &a.sin_addr) == 1);
    return a;
}

// listening is a socket of rank 0.
static int listening(sockaddr_in at) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(s >= 0 && bind(s, (sockaddr *)&at, sizeof at) == 0 && listen(s, 1) == 0);
    return s;
}

static int accepted(int listening) {
    const int line = accept(listening, nullptr, nullptr);
    REQUIRE(line >= 0);
    return line;
}

// connected reaches rank 0, as soon as it is there.
static int connected(sockaddr_in to) {
    for (;;) {
        const int s = socket(AF_INET, SOCK_STREAM, 0);
        REQUIRE(s >= 0);
        if (connect(s, (sockaddr *)&to, sizeof to) == 0) return s;
        close(s);
        usleep(200000);
    }
}

static void both() {
    sockaddr_in at = place("127.0.0.1", 0);
    socklen_t size = sizeof at;
    int status;
    const int s = listening(at);
    REQUIRE(getsockname(s, (sockaddr *)&at, &size) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        REQUIRE(freopen("/dev/null", "w", stdout));
        train(connected(at), 1);
        exit(0);
    }
    train(accepted(s), 0);
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        both();
        return 0;
    }
    const sockaddr_in at = place(argv[2], atoi(argv[3]));
    const int rank = atoi(argv[1]);
    train(rank ? connected(at) : accepted(listening(at)), rank != 0);
}
