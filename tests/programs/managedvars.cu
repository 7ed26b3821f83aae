// SPDX-License-Identifier: Apache-2.0
// Managed variables: scalars, arrays and structures with and without initial values, addresses
// among them, touched by host and device in turn and at the same time, copied by name, and asked
// about.
#include "check.h"
#include <cstring>
#include <ctime>

const int n = 5000;

struct Pair {
    short key;
    double value;
};

__managed__ int counter = 5;
__managed__ unsigned char flag = 200;
__managed__ double table[7] = {1.5, 2.5, -3.25};
__managed__ Pair pairs[2] = {{7, 0.5}, {-8, 1e300}};
__managed__ unsigned numbers[n];
__managed__ char text[] = "a managed text";
__device__ int plain = 3;
__managed__ int *toPlain; // the device's to fill: device variables have an address in each context,
                          // managed ones have one
__managed__ int *toCounter;
__managed__ int turn, shared[50];
__constant__ unsigned factor = 2654435761u;

__global__ void change() {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) numbers[i] = numbers[i] * factor + unsigned(i);
    atomicAdd(toCounter, 1);
    if (i == 0) {
        for (int k = 0; k < 7; k++) table[k] *= 2;
        pairs[1].key += pairs[0].key;
        flag++;
        toPlain = &plain;
        *toPlain += 1;
    }
}

__global__ void compare(unsigned *wrong, int wantPlain) {
    const char want[] = "a managed text";
    for (int i = 0; i < int(sizeof want); i++)
        if (text[i] != want[i]) atomicAdd(wrong, 1);
    if (plain != wantPlain || toPlain != &plain) atomicAdd(wrong, 1);
    if (toCounter != &counter) atomicAdd(wrong, 1);
}

// Rounds are numbered; the host has the odd turns, the device the even ones.
__global__ void pingPong(int rounds) {
    volatile int *now = &turn, *data = shared;
    for (int r = 0; r < rounds; r++) {
        while (*now != 2 * r + 1) {}
        __threadfence_system();
        for (int i = 0; i < 50; i++) data[i] = data[i] * 3 + r;
        __threadfence_system();
        *now = 2 * r + 2;
    }
}

static void atTheSameTime() {
    const int rounds = 10;
    int possible, want[50];
    CHECK(cudaDeviceGetAttribute(&possible, cudaDevAttrConcurrentManagedAccess, 0));
    REQUIRE(possible);
    for (int i = 0; i < 50; i++) want[i] = shared[i] = 1000 + i;
    pingPong<<<1, 1>>>(rounds);
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < 50; i++) want[i] = shared[i] += i;
        __atomic_store_n(&turn, 2 * r + 1, __ATOMIC_RELEASE);
        timespec pause = {0, 50000};
        while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 2 * r + 2) nanosleep(&pause, nullptr);
        for (int i = 0; i < 50; i++) REQUIRE(shared[i] == want[i] * 3 + r);
    }
    CHECK(cudaDeviceSynchronize());
    printf("at the same time: as expected\n");
}

int main() {
    Random r = {77};
    // Initial values, before anything ran on the device.
    REQUIRE(counter == 5 && flag == 200 && !strcmp(text, "a managed text"));
    for (int k = 0; k < 7; k++)
        REQUIRE(table[k] == (k == 0 ? 1.5 : k == 1 ? 2.5 : k == 2 ? -3.25 : 0));
    REQUIRE(pairs[0].key == 7 && pairs[0].value == 0.5 && pairs[1].key == -8 &&
            pairs[1].value == 1e300);
    for (int i = 0; i < n; i++) REQUIRE(numbers[i] == 0);
    REQUIRE(toCounter == nullptr && toPlain == nullptr);
    toCounter = &counter;
    printf("initial values: as expected\n");

    static unsigned want[n];
    int wantCounter = 5;
    for (int i = 0; i < n; i++) want[i] = numbers[i] = r.next();
    for (int turn = 0; turn < 3; turn++) {
        change<<<(n + 127) / 128, 128>>>();
        CHECK(cudaDeviceSynchronize());
        wantCounter += (n + 127) / 128 * 128;
        for (int i = 0; i < n; i++) {
            want[i] = want[i] * 2654435761u + unsigned(i);
            REQUIRE(numbers[i] == want[i]);
        }
        REQUIRE(counter == wantCounter && flag == (unsigned char)(201 + turn));
        REQUIRE(table[0] == 1.5 * (2 << turn) && table[2] == -3.25 * (2 << turn) && table[6] == 0);
        REQUIRE(pairs[1].key == -8 + 7 * (turn + 1) && pairs[1].value == 1e300 &&
                pairs[0].key == 7);
        int at = int(r.below(n));
        numbers[at] = want[at] = r.next();
        counter = wantCounter = int(r.below(1000));
    }
    printf("in turn: as expected\n");
    atTheSameTime();

    unsigned *wrong;
    CHECK(cudaMallocManaged(&wrong, sizeof *wrong));
    *wrong = 0;
    compare<<<1, 1>>>(wrong, 3 + 3);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*wrong == 0);
    CHECK(cudaFree(wrong));
    printf("addresses: as expected\n");

    static unsigned got[n];
    int *address;
    size_t size;
    for (int i = 0; i < n; i++) want[i] = r.next();
    CHECK(cudaMemcpyToSymbol(numbers, want, sizeof want));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(!memcmp(numbers, want, sizeof want));
    CHECK(cudaMemcpyFromSymbol(got, numbers, sizeof got));
    REQUIRE(!memcmp(got, want, sizeof want));
    CHECK(cudaGetSymbolAddress((void **)&address, counter));
    CHECK(cudaGetSymbolSize(&size, numbers));
    REQUIRE(address == &counter && size == sizeof numbers);
    CHECK(cudaMemset(&counter, 0xff, sizeof counter));
    REQUIRE(counter == -1);
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, &numbers[n - 1]));
    REQUIRE(a.type == cudaMemoryTypeManaged && a.devicePointer == &numbers[n - 1] &&
            a.hostPointer == &numbers[n - 1]);
    CHECK(cudaPointerGetAttributes(&a, got));
    REQUIRE(a.type != cudaMemoryTypeManaged);
    printf("by name: as expected\n");
}
