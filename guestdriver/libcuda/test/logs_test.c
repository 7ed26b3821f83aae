/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that programs ask for: in order, whole, the oldest overwritten, and callbacks. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/logs.h"
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "exports/unsupported.h"

static char text[64 << 10];

/* Dumps from the iterator on into so much memory; returns the bytes. */
static size_t dump(CUlogIterator *from, size_t room, CUresult want)
{
	memset(text, 'x', sizeof(text));
	CHECK_IS(want, cuLogsDumpToMemory(from, text, &room, 0));
	CHECK_IS(0, text[room]);
	CHECK_IS('x', text[room + 1]);
	return room;
}

/* Checks that the dump is `n` lines of which the first ends with `message`. */
static void check_lines(unsigned n, const char *message)
{
	const char *at = text, *end;
	size_t length = strlen(message);

	for (unsigned i = 0; i < n; i++) {
		end = strchr(at, '\n');
		CHECK(end && strchr(at, '[') == at);
		CHECK(i || !strncmp(end - length, message, length));
		at = end + 1;
	}
	CHECK_IS(0, *at);
}

static unsigned called;

static void count(void *data, int level, char *message, size_t length)
{
	CHECK_IS(1, level);
	CHECK_IS(strlen(message), length);
	CHECK(data == text);
	__atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
}

static void *chatter(void *unused)
{
	for (int i = 0; i < 500; i++)
		logs_add("chatter");
	return unused;
}

/* The file that CUDA_LOG_FILE names has so many lines, each of the same form. */
static void check_file(const char *path, unsigned n)
{
	char line[512];
	FILE *f = fopen(path, "r");

	CHECK(f);
	for (unsigned i = 0; i < n; i++) {
		CHECK(fgets(line, sizeof(line), f));
		CHECK(line[0] == '[' && strstr(line, "][CUDA][W] ") &&
		      line[strlen(line) - 1] == '\n');
	}
	CHECK(!fgets(line, sizeof(line), f));
	fclose(f);
}

/* Messages are read from an iterator on, as many as fit. */
static void read_from(CUlogIterator start)
{
	CUlogIterator at = start;
	size_t zero = 0;

	CHECK(dump(&at, 4096, CUDA_SUCCESS) > 0);
	check_lines(2, "cuNothing is not supported");
	CHECK_IS(0, dump(&at, 4096, CUDA_SUCCESS));

	at = start;
	CHECK_IS(0, dump(&at, 10, CUDA_ERROR_INVALID_VALUE));
	CHECK_IS(start, at);
	CHECK(dump(&at, 80, CUDA_SUCCESS) < 80);
	check_lines(1, "cuNothing is not supported");
	CHECK(dump(&at, 80, CUDA_SUCCESS) < 80);
	check_lines(1, "second");
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, text, &zero, 0));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, NULL, &zero, 0));
}

/* Of many messages the last 100 are kept. */
static void kept(CUlogIterator start)
{
	CUlogIterator at = start;

	for (int i = 0; i < 250; i++) {
		char line[400];

		snprintf(line, sizeof(line), "number %d %0*d", i, i,
			 0); /* in the end longer than a line may be */
		logs_add(line);
	}
	dump(NULL, 32 << 10, CUDA_SUCCESS);
	check_lines(100, "");
	CHECK(strstr(text, "number 150 ") && !strstr(text, "number 149 "));
	dump(&at, 32 << 10, CUDA_SUCCESS);
	check_lines(100, "");
}

static void to_files(CUlogIterator start)
{
	CUlogIterator at = start;
	char path[] = "/tmp/paracuda-logs-XXXXXX";

	close(mkstemp(path));
	CHECK_IS(CUDA_SUCCESS, cuLogsDumpToFile(&at, path, 0));
	CHECK_IS(CUDA_ERROR_OPERATING_SYSTEM, cuLogsDumpToFile(NULL, "/nowhere/file", 0));
	unlink(path);
}

/* Each message of four threads is told once, until nobody listens any more. */
static void told(void)
{
	CUlogsCallbackHandle handle;
	pthread_t thread[4];

	CHECK_IS(CUDA_SUCCESS, cuLogsRegisterCallback(count, text, &handle));
	for (int i = 0; i < 4; i++)
		CHECK_IS(0, pthread_create(&thread[i], NULL, chatter, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK_IS(2000, called);
	CHECK_IS(CUDA_SUCCESS, cuLogsUnregisterCallback(handle));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(handle));
	logs_add("nobody hears this");
	CHECK_IS(2000, called);
}

int main(void)
{
	char file[] = "/tmp/paracuda-log-file-XXXXXX";
	CUlogIterator start;
	int said = 0;

	close(mkstemp(file));
	setenv("CUDA_LOG_FILE", file, 1);
	CHECK_IS(CUDA_SUCCESS, cuLogsCurrent(&start, 0));
	CHECK_IS(0, dump(&start, 100, CUDA_SUCCESS));
	CHECK_IS(CUDA_ERROR_NOT_SUPPORTED, unsupported("cuNothing", &said));
	logs_add("second");
	read_from(start);
	kept(start);
	to_files(start);
	told();
	check_file(file, 2 + 250 + 2000 + 1);
	unlink(file);
	puts("messages: ok");
	return 0;
}
