/* SPDX-License-Identifier: Apache-2.0 */
/* How long images are, for sound ones and for headers that lie. */
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "code/image.h"
#include "code/jit.h"

static struct image got;

static size_t length(const void *data, size_t limit)
{
	CUresult result = image_measure(data, limit, &got);

	if (result)
		return 0;
	image_free(&got);
	return got.bytes;
}

static void fatbins(void)
{
	uint8_t f[64] = { 0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 24 };
	struct {
		uint32_t magic, version;
		const void *data;
		void *more;
	} w = { 0x466243b1, 1, f, NULL };
	const void *parts[3] = { f, f, NULL };

	CHECK_IS(40, length(f, 64));
	CHECK_IS(40, length(f, SIZE_MAX));
	CHECK_IS(0, length(f, 39));
	CHECK_IS(0, length(f, 12));
	CHECK_IS(40, length(&w, SIZE_MAX));
	CHECK(got.data == f);
	w.version = 2;
	w.more = parts;
	CHECK_IS(40, length(&w, SIZE_MAX));
	w.data = NULL;
	CHECK_IS(80, length(&w, SIZE_MAX));
	w.more = NULL;
	CHECK_IS(0, length(&w, SIZE_MAX));
	w.version = 3;
	CHECK_IS(0, length(&w, SIZE_MAX));
	w.version = 1;
	CHECK_IS(0, length(&w, SIZE_MAX));
	w.data = &w;
	CHECK_IS(0, length(&w, SIZE_MAX));
	memset(f + 8, 0xff, 8);
	CHECK_IS(0, length(f, SIZE_MAX));
	f[6] = 8;
	CHECK_IS(0, length(f, SIZE_MAX));
}

static void elfs(void)
{
	static uint8_t image[1024];
	Elf64_Ehdr *e = (Elf64_Ehdr *)image;
	Elf64_Shdr *s = (Elf64_Shdr *)(image + 256);
	Elf64_Phdr *p;

	memcpy(e->e_ident, "\177ELF\2\1\1", 7);
	CHECK_IS(64, length(image, sizeof(image)));
	e->e_shoff = 256;
	e->e_shnum = 3;
	e->e_shentsize = sizeof(*s);
	CHECK_IS(256 + 3 * 64, length(image, sizeof(image)));
	s[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 100 };
	s[2] = (Elf64_Shdr){ .sh_type = SHT_NOBITS, .sh_offset = 64, .sh_size = 1 << 20 };
	CHECK_IS(256 + 3 * 64, length(image, sizeof(image)));
	/* Program headers behind the sections, as some compilers put them. */
	e->e_phoff = 512;
	e->e_phnum = 2;
	e->e_phentsize = sizeof(*p);
	p = (Elf64_Phdr *)(image + 512);
	CHECK_IS(512 + 2 * 56, length(image, sizeof(image)));
	p[1] = (Elf64_Phdr){ .p_offset = 800, .p_filesz = 50 };
	CHECK_IS(850, length(image, sizeof(image)));
	CHECK_IS(0, length(image, 849));
	p[1].p_filesz = UINT64_MAX;
	CHECK_IS(0, length(image, SIZE_MAX));
	p[1].p_filesz = 0;
	s[1].sh_offset = UINT64_MAX - 10;
	CHECK_IS(0, length(image, SIZE_MAX));
	e->e_shoff = UINT64_MAX - 100;
	CHECK_IS(0, length(image, SIZE_MAX));
	e->e_shentsize = 8;
	CHECK_IS(0, length(image, SIZE_MAX));
	e->e_ident[4] = 1;
	CHECK_IS(0, length(image, SIZE_MAX));
}

static void texts(void)
{
	static const char ptx[] = "// made by hand\n.version 8.0\n.target sm_75\n";
	uint8_t noise[8] = { 0x80, 0x01 };

	CHECK_IS(sizeof(ptx), length(ptx, SIZE_MAX));
	CHECK_IS(0, length(ptx, sizeof(ptx) - 1));
	CHECK_IS(0, length("", SIZE_MAX));
	CHECK_IS(2, length("\n", SIZE_MAX));
	CHECK_IS(0, length(noise, SIZE_MAX));
	CHECK_IS(8, length("!<arch>\nnothing", SIZE_MAX));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, image_measure(NULL, SIZE_MAX, &got));
}

static void files(void)
{
	char name[] = "/tmp/imageXXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0);
	CHECK_IS(CUDA_ERROR_INVALID_IMAGE, image_read(name, &got));
	CHECK(write(fd, ".version 7.0\n", 13) == 13);
	CHECK_IS(0, image_read(name, &got));
	CHECK_IS(14, got.bytes);
	image_free(&got);
	close(fd);
	unlink(name);
	CHECK_IS(CUDA_ERROR_FILE_NOT_FOUND, image_read(name, &got));
	CHECK_IS(CUDA_ERROR_INVALID_IMAGE, image_read("/", &got));
}

/* What is of no use alone, or without a value, is refused as driver 580 does. */
static void options(void)
{
	static const struct {
		int option[3];
		unsigned count;
		CUresult null, some;
	} cases[] = {
		{ { 0 }, 1, 0, 0 }, /* registers */
		{ { 3 }, 1, 1, 0 },	     { { 5 }, 1, 1, 0 }, /* buffers, sizes, and both */
		{ { 4 }, 1, 1, 1 },	     { { 6 }, 1, 1, 1 },  { { 3, 4 }, 2, 0, 0 },
		{ { 6, 5 }, 2, 0, 0 },	     { { 17 }, 1, 1, 1 }, { { 19 }, 1, 1, 1 },
		{ { 17, 18, 19 }, 3, 1, 0 }, { { 25 }, 1, 1, 0 }, { { 26 }, 1, 0, 0 },
		{ { 27 }, 1, 1, 0 },	     { { 28 }, 1, 0, 0 }, { { 34 }, 1, 0, 0 },
		{ { 35 }, 1, 1, 1 },	     { { -1 }, 1, 1, 1 },
	};
	char some[64] = "";
	void *null[3] = { NULL }, *values[3] = { some, some, some };
	struct jit j;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_IS(cases[i].null, jit_parse(&j, cases[i].count, cases[i].option, null));
		CHECK_IS(cases[i].some, jit_parse(&j, cases[i].count, cases[i].option, values));
	}
}

int main(void)
{
	fatbins();
	elfs();
	texts();
	options();
	files();
	return 0;
}
