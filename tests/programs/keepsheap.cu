// SPDX-License-Identifier: Apache-2.0
// A list that kernels keep in memory which they allocate with malloc, round after round: as many as
// the argument says, 0 for no end. Each round adds a piece and frees one, and all are compared.
#include "check.h"
#include <cstdint>

static const uint32_t most = 16;

struct Piece {
    Piece *next;
    uint32_t round, words[13];
};

// List is in memory of cudaMalloc; its pieces, the newest first, are in the kernels' own.
struct List {
    Piece *first;
    uint32_t pieces, wrong;
};

static __global__ void grow(List *list, uint32_t round) {
    Piece *p = (Piece *)malloc(sizeof *p);
    p->next = list->first;
    p->round = round;
    for (uint32_t i = 0; i < 13; i++) p->words[i] = round * 1664525u + i;
    list->first = p;
    if (++list->pieces <= most) return;
    while (p->next->next) p = p->next;
    free(p->next);
    p->next = nullptr;
    list->pieces--;
}

static __global__ void look(List *list, uint32_t round) {
    uint32_t n = 0;
    for (const Piece *p = list->first; p; p = p->next, n++) {
        list->wrong += p->round != round - n;
        for (uint32_t i = 0; i < 13; i++) list->wrong += p->words[i] != p->round * 1664525u + i;
    }
    list->wrong += n != list->pieces;
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    List *list, has;
    CHECK(cudaMalloc(&list, sizeof *list));
    CHECK(cudaMemset(list, 0, sizeof *list));
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        grow<<<1, 1>>>(list, i);
        look<<<1, 1>>>(list, i);
        CHECK(cudaMemcpy(&has, list, sizeof has, cudaMemcpyDeviceToHost));
        REQUIRE(has.wrong == 0 && has.pieces == (i < int(most) ? i + 1 : most));
    }
    printf("%d rounds of memory that kernels allocate\n", i);
}
