/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a throw-away VM: it makes the host's files usable, loads
 * the guest driver, runs one program and powers off.
 *
 * Its arguments, among others that the kernel may add: link=DEVICE leads to the
 * host. With files=TAG it runs in an initramfs, and the host's files come by
 * virtiofs under that tag; without it they are the root file system already.
 */
#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "copied.h"
#include "job.h"
#include "layers.h"
#include "link.h"
#include "problem.h"
#include "program.h"
#include "system.h"

/* How often, and after which pause, is looked whether all has ended: for two seconds. */
enum { END_TRIES = 200, END_PAUSE_US = 10000 };

/* end_others ends what still runs. */
static void end_others(void)
{
	kill(-1, SIGKILL);
	for (int tries = 0; tries < END_TRIES && waitpid(-1, NULL, WNOHANG) >= 0; tries++)
		usleep(END_PAUSE_US);
}

/* stop ends what still runs, waits for what has been written, and powers off. */
static void stop(int link)
{
	end_others();
	if (link >= 0)
		tcdrain(link);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

/*
 * give_up tells the host, or without a link the console, what couldn't be
 * done.
 */
static void give_up(int link, const char *why)
{
	fprintf(stderr, "paracuda init: %s\n", why);
	if (link >= 0)
		link_send(link, FRAME_ERROR, why, strlen(why));
	stop(link);
}

/* greet sends the link's version and the kernel's release. */
static void greet(int link)
{
	struct {
		uint32_t version;
		char release[sizeof(((struct utsname *)0)->release)];
	} hello = { .version = htole32(LINK_VERSION) };
	struct utsname system;

	uname(&system);
	memcpy(hello.release, system.release, sizeof(hello.release));
	link_send(link, FRAME_HELLO, &hello, sizeof(hello.version) + strlen(hello.release));
}

/* receive_frame reads a frame of a job. Before the first, a VM may learn that it is a copy. */
static void receive_frame(int link, struct frame *frame)
{
	while (link_receive(link, frame) == 0) {
		if (frame->type == FRAME_JOB)
			return;
		if (frame->type != FRAME_COPIED)
			break;
		if (copied_adapt(frame->data, frame->len) < 0)
			give_up(link, problem_words());
		greet(link);
	}
	give_up(link, "the host sent no job");
}

/* receive_job greets the host and reads what it is to run. */
static void receive_job(int link, struct job *job)
{
	static struct frame frame;
	char *text = NULL;
	size_t len = 0;

	greet(link);
	do {
		receive_frame(link, &frame);
		text = realloc(text, len + frame.len + 1);
		if (!text)
			give_up(link, "the job is too large");
		memcpy(text + len, frame.data, frame.len);
		len += frame.len;
		text[len] = 0;
	} while (frame.len > 0);
	if (job_parse(job, text, len) < 0)
		give_up(link, "the job names no program");
}

/* argument returns what follows the name in one of the arguments, or NULL. */
static const char *argument(char **argv, const char *name)
{
	for (size_t n = strlen(name); *argv; argv++)
		if (strncmp(*argv, name, n) == 0)
			return *argv + n;
	return NULL;
}

/* finish says how the program ended, once what it wrote is where it belongs. */
static void finish(int link, int code)
{
	end_others();
	if (layers_keep() < 0)
		give_up(link, problem_words());
	layers_tell(link);
	link_send_u32(link, FRAME_EXIT, code);
}

int main(int argc __attribute__((unused)), char **argv)
{
	const char *tag = argument(argv, "files="), *device = argument(argv, "link=");
	struct job job;
	int link, code;

	if (getpid() != 1 || !device) {
		fprintf(stderr, "init: this is the first process of a Paracuda VM\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (tag && system_early() < 0)
		give_up(-1, problem_words());
	link = link_open(device);
	if (link < 0)
		give_up(-1, "open the link to the host");
	receive_job(link, &job);
	if ((tag && system_enter_host(tag) < 0) || system_mount() < 0 || layers_mount(&job) < 0 ||
	    system_modules(&job) < 0)
		give_up(link, problem_words());
	layers_library(&job);
	code = program_run(&job, link);
	if (code >= 0)
		finish(link, code);
	stop(link);
}
