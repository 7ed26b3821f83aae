// SPDX-License-Identifier: Apache-2.0
// Registered memory that is the program's to the byte: neighbours with a page in common, until
// either is unregistered.
#include "inplace.h"

static void onOnePage() {
    unsigned char *p = map(page);
    CHECK(cudaHostRegister(p, 64, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(p + 512, 64, cudaHostRegisterDefault));
    use(p, 64);
    use(p + 512, 64);
    CHECK(cudaHostUnregister(p));
    use(p + 512, 64);
    CHECK(cudaHostRegister(p, 64, cudaHostRegisterDefault));
    use(p, 64);
    CHECK(cudaHostUnregister(p + 512));
    use(p, 64);
    CHECK(cudaHostUnregister(p));
    puts("two on one page");
}

// Three in a row, of which the one in the middle goes and comes back with other pages.
static void inARow() {
    const size_t bytes = 3 * page;
    unsigned char *p = map(10 * page), *a = p + 100, *b = a + bytes, *c = b + bytes;
    CHECK(cudaHostRegister(b, bytes, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(a, bytes, cudaHostRegisterDefault));
    CHECK(cudaHostRegister(c, bytes, cudaHostRegisterDefault));
    for (unsigned char *x : {a, b, c}) use(x, bytes);
    CHECK(cudaHostUnregister(b));
    map(2 * page, p + 4 * page);
    use(a, bytes);
    use(c, bytes);
    CHECK(cudaHostRegister(b, bytes, cudaHostRegisterDefault));
    for (unsigned char *x : {a, b, c}) use(x, bytes);
    CHECK(cudaHostUnregister(a));
    use(b, bytes);
    CHECK(cudaHostUnregister(c));
    use(b, bytes);
    CHECK(cudaHostUnregister(b));
    puts("three in a row");
}

int main() {
    onOnePage();
    inARow();
}
