/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a VM that has nothing but modules: loads those that /modules/list names, and
 * from then on says on the console when /dev/paracuda comes and goes. A line that begins with r
 * makes it reboot, one with o power off.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void load(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		perror(file);
	close(fd);
}

static void obey(void)
{
	char words[64];
	ssize_t n = read(0, words, sizeof(words));

	if (n > 0 && words[0] == 'r')
		reboot(RB_AUTOBOOT);
	if (n > 0 && words[0] == 'o')
		reboot(RB_POWER_OFF);
}

int main(void)
{
	char line[200];
	FILE *list;
	int is = 0;

	mount("none", "/dev", "devtmpfs", 0, NULL);
	if (!freopen("/dev/console", "w", stdout) || !freopen("/dev/console", "w", stderr))
		return 1;
	dup2(open("/dev/console", O_RDONLY | O_NONBLOCK | O_CLOEXEC), 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("guest: up");
	list = fopen("/modules/list", "re");
	while (list && fgets(line, sizeof(line), list)) {
		line[strcspn(line, "\n")] = 0;
		load(line);
	}
	for (;;) {
		struct stat s;
		int now = !stat("/dev/paracuda", &s);

		if (now != is)
			puts(now ? "guest: device" : "guest: no device");
		is = now;
		obey();
		usleep(100000);
	}
}
