// SPDX-License-Identifier: Apache-2.0
// Thousands of calls that nobody waits for: they happen in the order of the calls, in one stream,
// across threads and across streams by events, and what they were given may be changed as soon as
// each returns.
#include "check.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <vector>

const int cells = 64, steps = 3000, turns = 300, streams = 4, laps = 200;

struct Large {
    unsigned word[900];
};

__global__ void mix(unsigned *p, unsigned a, unsigned b) {
    p[threadIdx.x] = p[threadIdx.x] * a + b;
}
__global__ void mixLarge(unsigned *p, Large l) {
    p[threadIdx.x] = p[threadIdx.x] * 3 + l.word[threadIdx.x * 13];
}
__global__ void append(unsigned *log, unsigned *length, unsigned what) { log[(*length)++] = what; }

// oneStream does random steps on the device and on the host.
static void oneStream() {
    Random random{1};
    cudaStream_t stream;
    unsigned *dev, *other, want[cells] = {}, spare[cells] = {}, got[cells];
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev, sizeof want));
    CHECK(cudaMalloc(&other, sizeof want));
    CHECK(cudaMemsetAsync(dev, 0, sizeof want, stream));
    CHECK(cudaMemsetAsync(other, 0, sizeof want, stream));
    for (int i = 0; i < steps; i++) {
        unsigned a = random.next() | 1, b = random.next(), at = random.below(cells),
                 n = random.below(cells - at) + 1;
        Large large;
        unsigned source[cells];
        void *args[] = {&dev, &a, &b}, *largeArgs[] = {&dev, &large};
        switch (random.below(6)) {
        case 0:
            for (unsigned &x : want) x = x * a + b;
            CHECK(cudaLaunchKernel((const void *)mix, dim3(1), dim3(cells), args, 0, stream));
            a = b = 0xdeadbeef;
            break;
        case 1:
            for (unsigned &x : large.word) x = random.next();
            for (int k = 0; k < cells; k++) want[k] = want[k] * 3 + large.word[k * 13];
            CHECK(cudaLaunchKernel((const void *)mixLarge, dim3(1), dim3(cells), largeArgs, 0,
                                   stream));
            memset(&large, 0xee, sizeof large);
            break;
        case 2:
            for (unsigned &x : source) x = random.next();
            std::copy(source, source + n, want + at);
            CHECK(cudaMemcpyAsync(dev + at, source, n * sizeof(unsigned), cudaMemcpyHostToDevice,
                                  stream));
            memset(source, 0xee, sizeof source);
            break;
        case 3:
            std::fill(want + at, want + at + n, (a & 255) * 0x01010101u);
            CHECK(cudaMemsetAsync(dev + at, a & 255, n * sizeof(unsigned), stream));
            break;
        case 4:
            memcpy(spare, want, sizeof want);
            CHECK(cudaMemcpyAsync(other, dev, sizeof want, cudaMemcpyDeviceToDevice, stream));
            break;
        default:
            memcpy(want + at, spare + at, n * sizeof(unsigned));
            CHECK(cudaMemcpyAsync(dev + at, other + at, n * sizeof(unsigned),
                                  cudaMemcpyDeviceToDevice, stream));
        }
    }
    CHECK(cudaMemcpyAsync(got, dev, sizeof got, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(!memcmp(got, want, sizeof got));
    CHECK(cudaFree(dev));
    CHECK(cudaFree(other));
    CHECK(cudaStreamDestroy(stream));
}

// sources overwrites ordinary memory of all sizes as soon as its copy has returned.
static void sources() {
    const size_t sizes[] = {1,     3,     8,      100,     4096,         65535,
                            65536, 65537, 300000, 1 << 20, (5 << 20) + 7},
                 guard = 64;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Random random{2};
    for (size_t size : sizes) {
        std::vector<unsigned char> source(size), want(size + 2 * guard, 0xa5),
            got(size + 2 * guard);
        unsigned char *dev;
        CHECK(cudaMalloc(&dev, want.size()));
        CHECK(cudaMemset(dev, 0xa5, want.size()));
        for (int round = 0; round < 3; round++) {
            for (unsigned char &x : source) x = (unsigned char)random.next();
            std::copy(source.begin(), source.end(), want.begin() + guard);
            CHECK(
                cudaMemcpyAsync(dev + guard, source.data(), size, cudaMemcpyHostToDevice, stream));
            std::fill(source.begin(), source.end(), 0xee);
        }
        CHECK(cudaMemcpyAsync(got.data(), dev, got.size(), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(got == want);
        CHECK(cudaFree(dev));
    }
    CHECK(cudaStreamDestroy(stream));
}

static std::atomic<int> turn;
static unsigned *record, *recordLength;
static cudaStream_t shared;

static void *takeTurns(void *arg) {
    int me = int(size_t(arg));
    for (int i = 0; i < turns; i++) {
        while (turn != me) sched_yield();
        append<<<1, 1, 0, shared>>>(record, recordLength, i * 2 + me);
        CHECK(cudaGetLastError());
        turn = !me;
    }
    return nullptr;
}

// threads puts work into one stream from two threads in turn.
static void threads() {
    CHECK(cudaStreamCreateWithFlags(&shared, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&record, 2 * turns * sizeof(unsigned)));
    CHECK(cudaMalloc(&recordLength, sizeof(unsigned)));
    CHECK(cudaMemset(recordLength, 0, sizeof(unsigned)));
    CHECK(cudaDeviceSynchronize());
    pthread_t thread[2];
    for (size_t i = 0; i < 2; i++)
        REQUIRE(!pthread_create(&thread[i], nullptr, takeTurns, (void *)i));
    for (pthread_t t : thread) pthread_join(t, nullptr);
    std::vector<unsigned> got(2 * turns);
    CHECK(cudaMemcpyAsync(got.data(), record, 2 * turns * sizeof(unsigned), cudaMemcpyDeviceToHost,
                          shared));
    CHECK(cudaStreamSynchronize(shared));
    for (unsigned i = 0; i < 2 * turns; i++) REQUIRE(got[i] == i);
    CHECK(cudaFree(record));
    CHECK(cudaFree(recordLength));
    CHECK(cudaStreamDestroy(shared));
}

// events passes a value from stream to stream.
static void events() {
    cudaStream_t stream[streams];
    cudaEvent_t event[streams];
    unsigned *dev, want = 7, got;
    CHECK(cudaMalloc(&dev, sizeof want));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&event[s], cudaEventDisableTiming));
    }
    CHECK(cudaMemcpyAsync(dev, &want, sizeof want, cudaMemcpyHostToDevice, stream[0]));
    for (unsigned i = 0; i < laps * streams; i++) {
        cudaStream_t here = stream[i % streams];
        if (i > 0) CHECK(cudaStreamWaitEvent(here, event[(i - 1) % streams], 0));
        mix<<<1, 1, 0, here>>>(dev, i | 1, i);
        CHECK(cudaGetLastError());
        want = want * (i | 1) + i;
        CHECK(cudaEventRecord(event[i % streams], here));
    }
    CHECK(cudaEventSynchronize(event[streams - 1]));
    CHECK(cudaMemcpy(&got, dev, sizeof got, cudaMemcpyDeviceToHost));
    REQUIRE(got == want);
    for (int s = 0; s < streams; s++) {
        CHECK(cudaEventDestroy(event[s]));
        CHECK(cudaStreamDestroy(stream[s]));
    }
    CHECK(cudaFree(dev));
}

int main() {
    oneStream();
    sources();
    threads();
    events();
    printf("%d steps in order, %d turns of two threads, %d laps of %d streams\n", steps, turns,
           laps, streams);
}
