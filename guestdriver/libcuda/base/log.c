/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/logs.h"

/* Written once, by the first message. */
static struct {
	pthread_once_t opened;
	int fd; /* what PARACUDA_LOG names, -1 for nothing */
} state = { PTHREAD_ONCE_INIT, -1 };

static void log_open(void)
{
	const char *name = secure_getenv("PARACUDA_LOG");

	if (!name || !*name)
		return;
	if (!strcmp(name, "stderr"))
		state.fd = 2;
	else
		state.fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* Writes a line to a file, if there is one, and to those who ask for this library's messages. */
static void write_line(int fd, const char *format, va_list args)
{
	char text[512];
	int saved = errno;
	int head = snprintf(text, sizeof(text), "paracuda[%d]: ", (int)getpid());
	int body = vsnprintf(text + head, sizeof(text) - (size_t)head - 1, format, args);
	size_t length = (size_t)head + (body > 0 ? (size_t)body : 0);

	if (length > sizeof(text) - 2)
		length = sizeof(text) - 2;
	logs_add(text + head);
	if (fd < 0)
		return;
	text[length++] = '\n';
	/*
	 * One write a line, so that lines of several threads don't mix; nothing can be done if it
	 * fails.
	 */
	if (write(fd, text, length) < 0)
		errno = saved;
	errno = saved;
}

void log_line(const char *format, ...)
{
	va_list args;

	pthread_once(&state.opened, log_open);
	va_start(args, format);
	write_line(state.fd, format, args);
	va_end(args);
}

void log_user(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	write_line(2, format, args);
	va_end(args);
}
