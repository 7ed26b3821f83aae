/* SPDX-License-Identifier: Apache-2.0 */
/* Device-code images as programs pass them: by address, without a length, which is found here. */
#ifndef PARACUDA_IMAGE_H
#define PARACUDA_IMAGE_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

/* What is to be sent: a fat binary, a cubin, an archive, or PTX text with its NUL. */
struct image {
	const void *data;
	size_t bytes;
	void *owned; /* to be freed, or NULL */
};

/*
 * Measures the image at an address. `limit` is the number of bytes known to be there, SIZE_MAX when
 * none is known.
 */
CUresult image_measure(const void *at, size_t limit, struct image *image);

/* Reads an image from a file. */
CUresult image_read(const char *path, struct image *image);

void image_free(struct image *image);

#endif
