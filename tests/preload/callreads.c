/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded into QEMU: notes each time when QEMU itself reads a descriptor by which a back
 * end of vhost-user raises an interrupt, as its main loop does to pass the interrupt on. Appends a
 * line with the queue's number to the file that CALL_READS names.
 *
 * The descriptors are those that QEMU sends with SET_VRING_CALL on the socket of which CALL_SOCKET
 * is the name, without its folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SET_VRING_CALL 13
#define DESCRIPTORS 65536

struct message {
	uint32_t request, flags, size;
	uint64_t queue; /* in the lowest byte */
} __attribute__((packed));

static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static ssize_t (*real_read)(int, void *, size_t);
static int notes = -1;
static unsigned short queues[DESCRIPTORS]; /* 1 + the queue of a call descriptor */

__attribute__((constructor)) static void prepare(void)
{
	const char *file = getenv("CALL_READS");

	*(void **)&real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
	*(void **)&real_read = dlsym(RTLD_NEXT, "read");
	if (file)
		notes = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_back_end(int fd)
{
	const char *name, *want = getenv("CALL_SOCKET");
	struct sockaddr_un peer = { 0 };
	socklen_t room = sizeof(peer) - 1;

	if (!want || getpeername(fd, (struct sockaddr *)&peer, &room) || peer.sun_family != AF_UNIX)
		return 0;
	name = strrchr(peer.sun_path, '/');
	return name && !strcmp(name + 1, want);
}

/* A descriptor that goes along with SET_VRING_CALL is one to watch. */
static void look(int socket, const struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	struct message message;
	int fd;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || !m->msg_iovlen ||
	    m->msg_iov[0].iov_len < sizeof(message))
		return;
	memcpy(&message, m->msg_iov[0].iov_base, sizeof(message));
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (message.request == SET_VRING_CALL && fd >= 0 && fd < DESCRIPTORS && is_back_end(socket))
		queues[fd] = 1 + (message.queue & 0xff);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	look(fd, m);
	return real_sendmsg(fd, m, flags);
}

ssize_t read(int fd, void *to, size_t room)
{
	ssize_t n = real_read(fd, to, room);

	if (n == sizeof(uint64_t) && fd >= 0 && fd < DESCRIPTORS && queues[fd])
		dprintf(notes, "%d\n", queues[fd] - 1);
	return n;
}
