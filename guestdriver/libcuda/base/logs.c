/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs see of this library's messages. There are few: that a function isn't there, and
 * what its user must fix. What a result tells isn't said again.
 */
#define _GNU_SOURCE
#include "base/logs.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/zz_generated_prototypes.h"

/* Together 25600 bytes, as in CUDA. */
#define LINES 100u
#define LINE_BYTES 256

#define LEVEL_WARNING 1

struct callback {
	struct callback *next;
	CUlogsCallback function;
	void *data;
};

/* Written by who logs, under the lock. */
static struct {
	pthread_mutex_t lock;
	char lines[LINES][LINE_BYTES];
	unsigned count; /* of all messages; the last LINES of them are there */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The program's. The lock is recursive: a callback may log, or unregister itself. */
static struct {
	pthread_mutex_t lock;
	struct callback *first;
} callbacks = { .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP };

/* Written once, by the first message. */
static struct {
	pthread_once_t opened;
	int fd; /* what CUDA_LOG_FILE names, -1 for nothing */
} file = { PTHREAD_ONCE_INIT, -1 };

static void open_file(void)
{
	const char *name = secure_getenv("CUDA_LOG_FILE");

	if (!name || !*name)
		return;
	if (!strcmp(name, "stdout"))
		file.fd = STDOUT_FILENO;
	else if (!strcmp(name, "stderr"))
		file.fd = STDERR_FILENO;
	else
		file.fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/*
 * One write a line, so that lines of several processes don't mix. A message that can't be written
 * is lost.
 */
static void write_file(const char *line)
{
	size_t length = strlen(line);

	pthread_once(&file.opened, open_file);
	if (file.fd >= 0 && write(file.fd, line, length) != (ssize_t)length)
		return;
}

void logs_add(const char *message)
{
	struct timespec now;
	struct tm utc;
	struct callback *next;
	char *line;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	pthread_mutex_lock(&state.lock);
	line = state.lines[state.count++ % LINES];
	snprintf(line, LINE_BYTES - 1, "[%02d:%02d:%02d.%03d][%d][CUDA][W] %s", utc.tm_hour,
		 utc.tm_min, utc.tm_sec, (int)(now.tv_nsec / 1000000), (int)syscall(SYS_gettid),
		 message);
	strcat(line, "\n");
	write_file(line);
	pthread_mutex_unlock(&state.lock);
	pthread_mutex_lock(&callbacks.lock);
	for (struct callback *c = callbacks.first; c; c = next) {
		char copy[LINE_BYTES];

		next = c->next;
		snprintf(copy, sizeof(copy), "%s", message);
		c->function(c->data, LEVEL_WARNING, copy, strlen(copy));
	}
	pthread_mutex_unlock(&callbacks.lock);
}

EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData,
				       CUlogsCallbackHandle *callback_out)
{
	struct callback *c;

	if (!callbackFunc)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->function = callbackFunc;
	c->data = userData;
	pthread_mutex_lock(&callbacks.lock);
	c->next = callbacks.first;
	callbacks.first = c;
	pthread_mutex_unlock(&callbacks.lock);
	if (callback_out)
		*callback_out = c;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	struct callback **p, *c;

	pthread_mutex_lock(&callbacks.lock);
	for (p = &callbacks.first; *p && *p != callback;)
		p = &(*p)->next;
	c = *p;
	if (c)
		*p = c->next;
	pthread_mutex_unlock(&callbacks.lock);
	free(c);
	return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The flags are documented as 0; NVIDIA's library looks at none. */
EXPORT CUresult cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
	(void)flags;
	if (!iterator_out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	*iterator_out = state.count;
	pthread_mutex_unlock(&state.lock);
	return CUDA_SUCCESS;
}

static unsigned oldest(void)
{
	return state.count > LINES ? state.count - LINES : 0;
}

/*
 * Copies whole messages from *from on, as many as fit before a final NUL, and advances. Returns
 * their bytes.
 */
static size_t dump(unsigned *from, char *buffer, size_t room)
{
	size_t used = 0;

	if (state.count - *from > LINES)
		*from = oldest();
	while (*from != state.count) {
		const char *line = state.lines[*from % LINES];
		size_t length = strlen(line);

		if (length >= room - used)
			break;
		memcpy(buffer + used, line, length);
		used += length;
		++*from;
	}
	buffer[used] = 0;
	return used;
}

EXPORT CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
				   unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	unsigned from;

	if (!buffer || !size || !*size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	from = iterator ? *iterator : oldest();
	*size = dump(&from, buffer, *size);
	if (!*size && from != state.count)
		result = CUDA_ERROR_INVALID_VALUE;
	if (iterator)
		*iterator = from;
	pthread_mutex_unlock(&state.lock);
	return result;
}

EXPORT CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile,
				 unsigned int flags)
{
	char *buffer;
	size_t bytes = LINES * LINE_BYTES + 1;
	CUresult result;
	FILE *out;

	if (!pathToFile || flags)
		return CUDA_ERROR_INVALID_VALUE;
	buffer = malloc(bytes);
	if (!buffer)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuLogsDumpToMemory(iterator, buffer, &bytes, 0);
	out = result ? NULL : fopen(pathToFile, "we");
	if (!result && (!out || fwrite(buffer, 1, bytes, out) != bytes))
		result = CUDA_ERROR_OPERATING_SYSTEM;
	if (out && fclose(out) && !result)
		result = CUDA_ERROR_OPERATING_SYSTEM;
	free(buffer);
	return result;
}
