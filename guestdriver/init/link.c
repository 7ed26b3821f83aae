/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

struct header {
	uint32_t type;
	uint32_t len;
};

static void make_raw(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) < 0)
		return; /* a virtio port is no terminal */
	cfmakeraw(&t);
	t.c_cflag |= CLOCAL;
	tcsetattr(fd, TCSANOW, &t);
}

/* The port's device appears a little after its driver: it is waited for for five seconds. */
enum { OPEN_TRIES = 500, OPEN_PAUSE_US = 10000 };

int link_open(const char *device)
{
	for (int tries = 0; tries < OPEN_TRIES; tries++) {
		int fd = open(device, O_RDWR | O_NOCTTY | O_CLOEXEC);

		if (fd >= 0) {
			make_raw(fd);
			return fd;
		}
		usleep(OPEN_PAUSE_US);
	}
	return -1;
}

static int wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, -1) < 0 && errno != EINTR ? -1 : 0;
}

/* again tells whether a read or write that returned -1 must be repeated. */
static int again(int fd, short events)
{
	if (errno == EINTR)
		return 1;
	return errno == EAGAIN && wait_for(fd, events) == 0;
}

static int write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && !again(fd, POLLOUT))
			return -1;
		if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

static int read_all(int fd, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = read(fd, p, len);

		if (n == 0 || (n < 0 && !again(fd, POLLIN)))
			return -1;
		if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

int link_send(int fd, uint32_t type, const void *data, size_t len)
{
	static char frame[sizeof(struct header) + LINK_DATA_MAX];
	struct header h = { .type = htole32(type) };

	if (len > LINK_DATA_MAX)
		len = LINK_DATA_MAX;
	h.len = htole32(len);
	memcpy(frame, &h, sizeof(h));
	memcpy(frame + sizeof(h), data, len);
	return write_all(fd, frame, sizeof(h) + len);
}

int link_send_u32(int fd, uint32_t type, uint32_t value)
{
	value = htole32(value);
	return link_send(fd, type, &value, sizeof(value));
}

int link_receive(int fd, struct frame *frame)
{
	struct header h;

	if (read_all(fd, &h, sizeof(h)) < 0)
		return -1;
	frame->type = le32toh(h.type);
	frame->len = le32toh(h.len);
	if (frame->len > sizeof(frame->data) || read_all(fd, frame->data, frame->len) < 0)
		return -1;
	if (frame->type == FRAME_JOB || frame->type == FRAME_STDIN)
		return link_send(fd, FRAME_ACK, "", 0);
	return 0;
}
