/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "code/image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC 0xba55ed50u

/* No image is larger: a greater length in a header is nonsense. */
#define IMAGE_MAX ((uint64_t)4 << 30)

struct wrapper {
	uint32_t magic;
	uint32_t version;
	const void *data;
	const void *more; /* version 2: NULL-terminated array of containers to link */
};

struct fatbin {
	uint32_t magic;
	uint16_t version;
	uint16_t header_bytes;
	uint64_t bytes;
};

/* Raises *end to offset + bytes; false when that is nonsense. */
static bool reach(uint64_t *end, uint64_t offset, uint64_t bytes)
{
	uint64_t sum;

	if (__builtin_add_overflow(offset, bytes, &sum) || sum > IMAGE_MAX)
		return false;
	if (sum > *end)
		*end = sum;
	return true;
}

static size_t fatbin_bytes(const uint8_t *at, size_t limit)
{
	struct fatbin f;
	uint64_t end = 0;

	if (limit < sizeof(f))
		return 0;
	memcpy(&f, at, sizeof(f));
	if (f.header_bytes < sizeof(f) || !reach(&end, f.header_bytes, f.bytes) || end > limit)
		return 0;
	return end;
}

static size_t elf_bytes(const uint8_t *at, size_t limit)
{
	uint64_t end = sizeof(Elf64_Ehdr);
	Elf64_Ehdr e;

	if (limit < sizeof(e))
		return 0;
	memcpy(&e, at, sizeof(e));
	if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_ident[EI_DATA] != ELFDATA2LSB)
		return 0;
	if ((e.e_phnum && e.e_phentsize < sizeof(Elf64_Phdr)) ||
	    (e.e_shnum && e.e_shentsize < sizeof(Elf64_Shdr)))
		return 0;
	if (!reach(&end, e.e_phnum ? e.e_phoff : 0, (uint64_t)e.e_phnum * e.e_phentsize) ||
	    !reach(&end, e.e_shnum ? e.e_shoff : 0, (uint64_t)e.e_shnum * e.e_shentsize) ||
	    end > limit)
		return 0;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, at + e.e_phoff + (size_t)i * e.e_phentsize, sizeof(p));
		if (!reach(&end, p.p_offset, p.p_filesz))
			return 0;
	}
	for (unsigned i = 0; i < e.e_shnum; i++) {
		Elf64_Shdr s;

		memcpy(&s, at + e.e_shoff + (size_t)i * e.e_shentsize, sizeof(s));
		if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL &&
		    !reach(&end, s.sh_offset, s.sh_size))
			return 0;
	}
	return end <= limit ? end : 0;
}

/*
 * An archive. A member's size is ten decimal digits at 48 of its 60-byte header, which ends with
 * "`\n".
 */
static size_t archive_bytes(const uint8_t *at, size_t limit)
{
	size_t end = 8;

	while (limit - end >= 60 && at[end + 58] == '`' && at[end + 59] == '\n') {
		char digits[11] = { 0 };
		uint64_t next = end, bytes;

		memcpy(digits, at + end + 48, 10);
		bytes = strtoull(digits, NULL, 10);
		if (!reach(&next, end + 60, bytes + (bytes & 1)) || next > limit)
			return 0;
		end = next;
	}
	return end;
}

/* Whether an image is text is told by its first bytes, so many. */
enum { TEXT_HEAD = 64 };

/* Whether it begins as text does: the assembler takes comments, white space and directives. */
static bool is_text(const uint8_t *at, size_t limit)
{
	for (size_t i = 0; i < limit && i < TEXT_HEAD; i++) {
		uint8_t c = at[i];

		if (!c)
			return i > 0;
		if (c != '\t' && c != '\n' && c != '\r' && c != '\f' &&
		    (c < ' ' || c == 0x7f || (!i && c > 0x7f)))
			return false;
	}
	return limit > 0;
}

static size_t container_bytes(const uint8_t *at, size_t limit)
{
	uint32_t magic = 0;

	/* Byte by byte: text may end before four. */
	for (unsigned i = 0; i < 4 && i < limit; i++) {
		magic |= (uint32_t)at[i] << 8 * i;
		if (!at[i])
			break;
	}
	if (magic == FATBIN_MAGIC)
		return fatbin_bytes(at, limit);
	if (magic == 0x464c457fu)
		return elf_bytes(at, limit);
	if (magic == 0x72613c21u && limit >= 8 && !memcmp(at, "!<arch>\n", 8))
		return archive_bytes(at, limit);
	if (is_text(at, limit)) {
		size_t length = strnlen((const char *)at, limit);

		return length < limit ? length + 1 : 0;
	}
	return 0;
}

/*
 * A device-linked wrapper: its own container, or if it has none, those to link, one after another.
 */
static CUresult measure_linked(const struct wrapper *w, struct image *image)
{
	const void *const *part = w->more;
	size_t total = 0;
	uint8_t *all;

	if (w->data && container_bytes(w->data, SIZE_MAX))
		return image_measure(w->data, SIZE_MAX, image);
	for (unsigned i = 0; part && part[i]; i++) {
		size_t bytes = container_bytes(part[i], SIZE_MAX);

		if (!bytes || total + bytes > IMAGE_MAX)
			return CUDA_ERROR_INVALID_IMAGE;
		total += (bytes + 7) & ~(size_t)7;
	}
	if (!total)
		return CUDA_ERROR_INVALID_IMAGE;
	all = calloc(1, total);
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	image->data = image->owned = all;
	image->bytes = total;
	for (unsigned i = 0; part[i]; i++) {
		size_t bytes = container_bytes(part[i], SIZE_MAX);

		memcpy(all, part[i], bytes);
		all += (bytes + 7) & ~(size_t)7;
	}
	return CUDA_SUCCESS;
}

CUresult image_measure(const void *at, size_t limit, struct image *image)
{
	struct wrapper w;
	uint32_t magic;

	memset(image, 0, sizeof(*image));
	if (!at)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == SIZE_MAX && *(const uint8_t *)at == (WRAPPER_MAGIC & 0xff) &&
	    !((uintptr_t)at & 7)) {
		memcpy(&magic, at, sizeof(magic));
		if (magic == WRAPPER_MAGIC) {
			memcpy(&w, at, sizeof(w));
			if (w.version == 2)
				return measure_linked(&w, image);
			if (w.version != 1 || !w.data ||
			    *(const uint8_t *)w.data == (WRAPPER_MAGIC & 0xff))
				return CUDA_ERROR_INVALID_IMAGE;
			at = w.data;
		}
	}
	image->data = at;
	image->bytes = container_bytes(at, limit);
	return image->bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult read_all(int fd, struct image *image)
{
	struct stat st;
	size_t bytes = 0;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    (uint64_t)st.st_size > IMAGE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	/* A NUL behind it, for text. */
	image->owned = calloc(1, (size_t)st.st_size + 1);
	if (!image->owned)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (bytes < (size_t)st.st_size) {
		ssize_t n = read(fd, (uint8_t *)image->owned + bytes, (size_t)st.st_size - bytes);

		if (n <= 0)
			return CUDA_ERROR_INVALID_IMAGE;
		bytes += (size_t)n;
	}
	image->bytes = bytes + 1;
	return CUDA_SUCCESS;
}

CUresult image_read(const char *path, struct image *image)
{
	struct image file = { 0 };
	CUresult result;
	int fd;

	memset(image, 0, sizeof(*image));
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	result = read_all(fd, &file);
	close(fd);
	if (!result)
		result = image_measure(file.owned, file.bytes, image);
	if (result) {
		free(file.owned);
		return result;
	}
	image->owned = file.owned;
	return CUDA_SUCCESS;
}

void image_free(struct image *image)
{
	free(image->owned);
	image->owned = NULL;
}
