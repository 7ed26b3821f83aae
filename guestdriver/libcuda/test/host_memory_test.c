/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory of this process, against the fake worker: until when it is pinned, and by whom. */
#include <string.h>
#include <sys/mman.h>

#include "addresses/memory_map.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "fake_worker.h"
#include "transport/channel.h"

#define PAGE 4096ul

static CUcontext context;

static uint8_t *pages(unsigned n)
{
	uint8_t *p =
		mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static bool known(const void *p)
{
	struct memory m;

	return memory_find((uint64_t)(uintptr_t)p, &m);
}

/* What was pinned in a context is pinned no more when it ends, and nothing else. */
static void ends_with_its_context(void)
{
	uint8_t *p = pages(4), *kept = pages(1);
	CUdeviceptr managed;
	CUcontext own;
	void *host;

	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuMemHostRegister_v2(kept, PAGE, CU_MEMHOSTREGISTER_IOMEMORY));
	CHECK_IS(0, cuMemHostRegister_v2(kept, PAGE, 0));
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p + 2 * PAGE, PAGE, CU_MEMHOSTREGISTER_PORTABLE));
	CHECK_IS(0, cuMemHostAlloc(&host, 3 * PAGE, 0));
	CHECK_IS(0, cuMemAllocManaged(&managed, PAGE, CU_MEM_ATTACH_GLOBAL));
	CHECK_IS(5, fake.maps_out);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(1, fake.maps_out);
	CHECK(!known(p) && !known(p + 2 * PAGE) && !known(host) && known(kept));
	p[0] = 1; /* it is the program's */
	CHECK_IS(0, cuMemHostRegister_v2(p, 4 * PAGE, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemHostUnregister(kept));
	munmap(p, 4 * PAGE);
	munmap(kept, PAGE);
}

static void ends_with_a_reset(void)
{
	uint8_t *p = pages(1);

	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	munmap(p, PAGE);
}

/*
 * Memory of another process that was opened before isn't mapped after a reset: it is opened anew.
 */
static void opened_before_a_reset(void)
{
	CUdeviceptr own, first, again;
	CUipcMemHandle handle;

	CHECK_IS(0, cuMemAlloc_v2(&own, 4096));
	CHECK_IS(0, cuIpcGetMemHandle(&handle, own));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(first == again);
	CHECK_IS(1, fake.opens);
	CHECK_IS(0, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(first));
	CHECK_IS(0, cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK_IS(2, fake.opens);
	CHECK(known((void *)(uintptr_t)again));
	CHECK_IS(0, cuIpcCloseMemHandle(again));
}

/*
 * A program that doesn't wait for its work: what frees or unregisters the memory does, whatever
 * failed before.
 */
static void waits_for_the_work(void)
{
	uint8_t *p = pages(1);
	unsigned syncs = fake.syncs;
	CUcontext own;
	void *host;

	CHECK_IS(0, cuMemHostAlloc(&host, PAGE, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((uint8_t *)host + 1));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(host));
	CHECK_IS(syncs, fake.syncs);
	CHECK_IS(0, cuMemFreeHost(host));
	CHECK_IS(syncs + 1, fake.syncs);
	channel.header->async_error = CUDA_ERROR_NOT_SUPPORTED;
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, cuMemHostUnregister(p));
	CHECK_IS(syncs + 2, fake.syncs);
	CHECK_IS(0, fake.maps_out);
	/* Work of the current context may use memory of another. */
	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemHostUnregister(p));
	CHECK_IS(syncs + 4, fake.syncs);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(syncs + 4, fake.syncs);
	CHECK_IS(0, cuCtxSetCurrent(context));
	munmap(p, PAGE);
}

static CUdeviceptr room;

/* Copies there and back through the device: whoever has the memory reaches it by its pins. */
static void check_copies(uint8_t *p, size_t bytes)
{
	unsigned maps = fake.maps;

	memset(p, 0x5a, bytes);
	CHECK_IS(0, cuMemcpyHtoDAsync_v2(room, p, bytes, NULL));
	CHECK_IS(0, cuStreamSynchronize(NULL));
	memset(p, 0, bytes);
	CHECK_IS(0, cuMemcpyDtoHAsync_v2(p, room, bytes, NULL));
	CHECK_IS(0, cuStreamSynchronize(NULL));
	CHECK(p[0] == 0x5a && p[bytes / 2] == 0x5a && p[bytes - 1] == 0x5a);
	CHECK_IS(maps, fake.maps);
}

static void neighbours_on_one_page(void)
{
	uint8_t *p = pages(1);

	CHECK_IS(0, cuMemHostRegister_v2(p, 64, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p + 512, 64, 0));
	CHECK_IS(1, fake.maps_out);
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(p + 63, 2, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p + 64, 448, 0));
	check_copies(p, 64);
	check_copies(p + 512, 64);
	CHECK_IS(0, cuMemHostUnregister(p));
	check_copies(p + 64, 448);
	CHECK_IS(0, cuMemHostUnregister(p + 64));
	check_copies(p + 512, 64);
	CHECK_IS(1, fake.maps_out);
	CHECK_IS(0, cuMemHostUnregister(p + 512));
	CHECK_IS(0, fake.maps_out);
	CHECK_IS(0, fake.keeps);
	/* What is pinned for reading can't be written by a neighbour. */
	CHECK_IS(0, cuMemHostRegister_v2(p, 64, CU_MEMHOSTREGISTER_READ_ONLY));
	CHECK_IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(p + 512, 64, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p + 512, 64, CU_MEMHOSTREGISTER_READ_ONLY));
	CHECK_IS(0, cuMemHostUnregister(p));
	CHECK_IS(0, cuMemHostUnregister(p + 512));
	CHECK_IS(0, fake.maps_out);
	munmap(p, PAGE);
}

/*
 * Three ranges, each with a page in common with the next; then the pages in between are registered
 * anew.
 */
static void neighbours_with_pages_between(void)
{
	size_t bytes = 3 * PAGE;
	uint8_t *p = pages(10), *a = p + 100, *b = a + bytes, *c = b + bytes;

	CHECK_IS(0, cuMemHostRegister_v2(b, bytes, 0));
	CHECK_IS(0, cuMemHostRegister_v2(a, bytes, 0));
	CHECK_IS(0, cuMemHostRegister_v2(c, bytes, 0));
	CHECK_IS(3, fake.maps_out);
	check_copies(a, bytes);
	check_copies(b, bytes);
	check_copies(c, bytes);
	CHECK_IS(0, cuMemHostUnregister(b));
	CHECK_IS(1, fake.keeps);
	CHECK_IS(3, fake.maps_out);
	check_copies(a, bytes);
	check_copies(c, bytes);
	/*
	 * Where b was: the two pages at the ends are there, those between are not, so that they may
	 * be others by now.
	 */
	CHECK_IS(0, cuMemHostRegister_v2(b, bytes, 0));
	CHECK_IS(4, fake.maps_out);
	check_copies(b, bytes);
	CHECK_IS(0, cuMemHostUnregister(b));
	CHECK_IS(3, fake.maps_out);
	CHECK_IS(1, fake.keeps);
	CHECK_IS(0, cuMemHostUnregister(a));
	CHECK_IS(2, fake.keeps);
	check_copies(c, bytes);
	CHECK_IS(0, cuMemHostUnregister(c));
	CHECK_IS(0, fake.maps_out);
	munmap(p, 10 * PAGE);
}

/* The page of two contexts stays with the one that doesn't end. */
static void neighbours_of_two_contexts(void)
{
	uint8_t *p = pages(1);
	unsigned keeps = fake.keeps;
	CUcontext own;

	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	CHECK_IS(0, cuMemHostRegister_v2(p, 64, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuMemHostRegister_v2(p + 64, 64, 0));
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(keeps + 1, fake.keeps);
	CHECK(!known(p));
	check_copies(p + 64, 64);
	CHECK_IS(0, cuMemHostUnregister(p + 64));
	CHECK_IS(0, fake.maps_out);
	munmap(p, PAGE);
}

static void *neighbour(void *at)
{
	CHECK_IS(0, cuCtxSetCurrent(context));
	for (int i = 0; i < 200; i++) {
		CHECK_IS(0, cuMemHostRegister_v2(at, PAGE, 0));
		CHECK_IS(0, cuMemHostUnregister(at));
	}
	return NULL;
}

static void neighbours_of_two_threads(void)
{
	uint8_t *p = pages(4);
	pthread_t thread[3];

	for (unsigned i = 0; i < 3; i++)
		CHECK_IS(0, pthread_create(&thread[i], NULL, neighbour, p + 100 + i * PAGE));
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	CHECK_IS(0, fake.maps_out);
	munmap(p, 4 * PAGE);
}

/* A kernel has failed: nothing can be done any more but to end, which gives the pages back. */
static void ends_after_a_fault(void)
{
	uint8_t *p = pages(1);
	void *host;

	CHECK_IS(0, cuMemHostRegister_v2(p, PAGE, 0));
	CHECK_IS(0, cuMemHostAlloc(&host, PAGE, 0));
	fake_stick(CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFreeHost(host));
	cuDevicePrimaryCtxReset_v2(0);
	CHECK_IS(0, fake.maps_out);
	CHECK(!known(p) && !known(host));
	munmap(p, PAGE);
}

#define PIECES 2000

/* A size for each piece: bytes, pages, and now and then one that is too large to share. */
static size_t piece_size(unsigned i)
{
	return i % 100 == 99 ? 300 * 1024 :
	       i % 10 == 9   ? 40 * PAGE + i :
			       1 + i * 7919ul % (2 * PAGE);
}

static uint8_t *make_piece(unsigned i, uint8_t fill)
{
	CUdeviceptr managed;
	void *p;

	if (i % 3) {
		CHECK_IS(0, cuMemHostAlloc(&p, piece_size(i), 0));
	} else {
		CHECK_IS(0, cuMemAllocManaged(&managed, piece_size(i), CU_MEM_ATTACH_GLOBAL));
		p = (void *)(uintptr_t)managed;
	}
	CHECK((uintptr_t)p % PAGE == 0);
	for (size_t at = 0; at < piece_size(i); at++)
		CHECK(!((uint8_t *)p)[at]);
	memset(p, fill, piece_size(i));
	return p;
}

static void free_piece(unsigned i, uint8_t *p, uint8_t filled)
{
	for (size_t at = 0; at < piece_size(i); at++)
		CHECK(p[at] == filled);
	if (i % 3)
		CHECK_IS(0, cuMemFreeHost(p));
	else
		CHECK_IS(0, cuMemFree_v2((CUdeviceptr)(uintptr_t)p));
	CHECK(!known(p));
}

/* Many pieces share what is pinned, and nothing else. */
static void many_pieces(void)
{
	static uint8_t *piece[PIECES];
	unsigned before = fake.maps_out, most;

	for (unsigned i = 0; i < PIECES; i++)
		piece[i] = make_piece(i, (uint8_t)i);
	most = fake.maps_out;
	CHECK(most - before < 100);
	for (unsigned i = 1; i < PIECES; i += 2) {
		free_piece(i, piece[i], (uint8_t)i);
		piece[i] = make_piece(i, (uint8_t)~i);
	}
	CHECK(fake.maps_out <= most + 2);
	for (unsigned i = 0; i < PIECES; i++)
		free_piece(i, piece[i], (uint8_t)(i % 2 ? ~i : i));
	CHECK_IS(before, fake.maps_out);
}

/* Each context has its own: what ends with one is none of another's. */
static void pieces_of_two_contexts(void)
{
	unsigned before = fake.maps_out;
	uint8_t *kept[100];
	CUcontext own;

	for (unsigned i = 0; i < 100; i++)
		kept[i] = make_piece(i, 7);
	CHECK_IS(0, cuCtxCreate_v2(&own, 0, 0));
	for (unsigned i = 0; i < 200; i++)
		make_piece(i, 8);
	CHECK_IS(0, cuCtxDestroy_v2(own));
	CHECK_IS(0, cuCtxSetCurrent(context));
	for (unsigned i = 0; i < 100; i++)
		free_piece(i, kept[i], 7);
	CHECK_IS(before, fake.maps_out);
}

/*
 * What is freed while a stream is being captured isn't given out again before its work can be
 * waited for.
 */
static void pieces_and_a_capture(void)
{
	enum { ALONE = 32, ALL = ALONE + 3 };
	unsigned before = fake.maps_out, syncs;
	void *p[ALL], *other, *again;
	CUstream s;
	CUgraph g;

	CHECK_IS(0, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < ALL; i++)
		CHECK_IS(0, cuMemHostAlloc(&p[i], PAGE, 0));
	memset(p[ALONE], 1, PAGE);
	CHECK_IS(0, cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK_IS(0, cuMemFreeHost(p[ALONE]));
	CHECK(*(uint8_t *)p[ALONE] == 1); /* work may be under way that reads it */
	CHECK_IS(0, cuMemHostAlloc(&other, PAGE, 0));
	CHECK(other != p[ALONE]);
	CHECK_IS(0, cuStreamEndCapture(s, &g));
	syncs = fake.syncs;
	CHECK_IS(0, cuMemHostAlloc(&again, PAGE, 0));
	CHECK(again == p[ALONE] && !*(uint8_t *)again);
	CHECK_IS(syncs + 1, fake.syncs);
	CHECK_IS(0, cuMemFreeHost(other));
	for (unsigned i = 0; i < ALL; i++)
		CHECK_IS(0, cuMemFreeHost(p[i]));
	CHECK_IS(0, cuGraphDestroy(g));
	CHECK_IS(0, cuStreamDestroy_v2(s));
	CHECK_IS(before, fake.maps_out);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
	host_memory_next = UINT64_MAX / 2; /* its shadow memory lies there */
#endif
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	ends_with_its_context();
	ends_with_a_reset();
	opened_before_a_reset();
	waits_for_the_work();
	CHECK_IS(0, cuMemAlloc_v2(&room, 3 * PAGE));
	neighbours_on_one_page();
	neighbours_with_pages_between();
	neighbours_of_two_contexts();
	neighbours_of_two_threads();
	many_pieces();
	pieces_of_two_contexts();
	pieces_and_a_capture();
	CHECK_IS(0, fake.maps_out);
	ends_after_a_fault();
	return 0;
}
