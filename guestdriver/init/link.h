/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link: one byte stream between init and the host, a virtio port in QEMU
 * and a serial line in User Mode Linux, that carries frames both ways. A frame
 * is its type and its payload's length, both 32 bits little endian, and the
 * payload. A serial line drops what is not read in time, so the host sends a
 * frame of a job or of input only once the one before is acknowledged.
 * vm/link.go is the host's end.
 */
#ifndef PARACUDA_LINK_H
#define PARACUDA_LINK_H

#include <stddef.h>
#include <stdint.h>

enum frame_type {
	FRAME_JOB = 1, /* host: what to run, see job.h; empty at its end */
	FRAME_STDIN = 2, /* host: standard input; empty at its end */
	FRAME_CLOSE = 3, /* host: nobody reads this output any more (u32: 1 or 2) */
	FRAME_COPIED = 4, /* host: this VM is a copy of one that had booted, see copied.h */
	FRAME_HELLO = 16, /* guest: LINK_VERSION (u32), the kernel's release */
	FRAME_STDOUT = 17, /* guest: standard output */
	FRAME_STDERR = 18, /* guest: standard error */
	FRAME_EXIT = 19, /* guest: the program's exit code (u32) */
	FRAME_ERROR = 20, /* guest: why the program could not be run (text) */
	FRAME_ACK = 21, /* guest: took a frame of a job or of input */
	FRAME_LOST =
		22, /* guest: files (u32) that end with the VM, and the directory that holds them */
};

#define LINK_VERSION 3
#define LINK_DATA_MAX 32768 /* payload of one frame */

/* link_open opens the link's device and makes it carry bytes unchanged. */
int link_open(const char *device);

/* link_send writes one frame; -1 if the host is gone. */
int link_send(int fd, uint32_t type, const void *data, size_t len);
int link_send_u32(int fd, uint32_t type, uint32_t value);

/* A frame as it is received. */
struct frame {
	uint32_t type;
	size_t len;
	char data[LINK_DATA_MAX];
};

/* link_receive reads one frame; -1 if the host is gone or sends nonsense. */
int link_receive(int fd, struct frame *frame);

#endif
