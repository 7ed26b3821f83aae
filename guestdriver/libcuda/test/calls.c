/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into a library that is built with -finstrument-functions, it notes which functions are
 * called from outside: a byte each in a file that all processes share, at the function's offset in
 * the library. tests/calls_test.go reads it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_NAME "/tmp/paracuda-calls"
#define QUIET __attribute__((no_instrument_function))

static uint8_t *called;
static uintptr_t base, end;

QUIET static int find(struct dl_phdr_info *info, size_t size, void *self)
{
	uintptr_t at = (uintptr_t)self, from = (uintptr_t)info->dlpi_addr, to = from;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && from + p->p_vaddr + p->p_memsz > to)
			to = from + p->p_vaddr + p->p_memsz;
	}
	if (at < from || at >= to)
		return 0;
	base = from;
	end = to;
	return 1;
}

QUIET __attribute__((constructor(101))) static void begin(void)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	void *p;

	if (fd < 0)
		return;
	dl_iterate_phdr(find, (void *)begin);
	if (ftruncate(fd, (off_t)(end - base)) == 0) {
		p = mmap(NULL, end - base, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED)
			called = p;
	}
	close(fd);
}

QUIET void __cyg_profile_func_enter(void *function, void *caller);
QUIET void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
	uintptr_t f = (uintptr_t)function, from = (uintptr_t)caller;

	if (called && (from < base || from >= end) && f >= base && f < end)
		called[f - base] = 1;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
}
