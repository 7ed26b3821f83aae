// SPDX-License-Identifier: Apache-2.0
// A kernel that lasts: some time of the GPU's clock, or where that is 0 so many turns of a loop.
#pragma once

__global__ void spin(long long iterations, unsigned long long ns, float *out) {
    if (ns) {
        unsigned long long begin, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        while (now - begin < ns);
        return;
    }
    float x = threadIdx.x;
    for (long long i = 0; i < iterations; i++) x = x * 0.999f + 1.0f;
    if (x < 0) *out = x;  // never: so that the loop stays
}
