/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a VM that has nothing but modules: loads those that /modules/list names,
 * each with the parameters behind its name, and from then on says on the console when
 * /dev/paracuda comes and goes. A line that begins with r makes it reboot, one with o power off,
 * one with p run /gpu/program, one with h start one that holds the GPU, one with e end that, one
 * with k start the programs in /gpu/keep, which should never end: it says if one does; with m
 * suspend the VM to RAM, with d to disk, and say what came of that. "start PROGRAM ARGUMENTS"
 * starts one, and says its number; "x NUMBER" ends it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void load(char *file)
{
	char *parameters = file + strcspn(file, " ");
	int fd;

	if (*parameters)
		*parameters++ = 0;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0))
		perror(file);
	close(fd);
}

static pid_t start(const char *program, const char *argument)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	execl(program, program, argument, NULL);
	perror(program);
	_exit(127);
}

static void await(const char *what, pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	printf("guest: %s %#x\n", what, status);
}

static void keep(void)
{
	DIR *all = opendir("/gpu/keep");
	struct dirent *e;

	while (all && (e = readdir(all))) {
		char path[300];

		snprintf(path, sizeof(path), "/gpu/keep/%s", e->d_name);
		if (e->d_name[0] != '.')
			printf("guest: %s is %d\n", e->d_name, start(path, "0"));
	}
	if (all)
		closedir(all);
}

/* startWith starts the program that a line names behind its first word, with the words after it. */
static void startWith(char *line)
{
	char *words[8] = { NULL };
	size_t n = 0;
	pid_t pid;

	strtok(line, " \n");
	while (n < 7 && (words[n] = strtok(NULL, " \n")))
		n++;
	if (!n)
		return;
	pid = fork();
	if (!pid) {
		execv(words[0], words);
		perror(words[0]);
		_exit(127);
	}
	printf("guest: %s is %d\n", words[0], pid);
}

/* sayEnded says which of its children have ended that nobody waits for. */
static void sayEnded(pid_t holder)
{
	siginfo_t i;

	i.si_pid = 0;
	if (!waitid(P_ALL, 0, &i, WEXITED | WNOHANG | WNOWAIT) && i.si_pid && i.si_pid != holder) {
		waitpid(i.si_pid, NULL, 0);
		printf("guest: %d has ended: %#x\n", i.si_pid, i.si_status);
	}
}

/* set writes to a file of the kernel's. */
static int set(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		err = errno;
	close(fd);
	return err;
}

/* suspend returns when the VM goes on, or can't be suspended. Warnings go to the console, too. */
static void suspend(const char *to)
{
	int err;

	mkdir("/sys", 0755);
	mount("none", "/sys", "sysfs", 0, NULL);
	set("/proc/sys/kernel/printk", "5");
	set("/sys/power/mem_sleep", "s2idle"); /* not by way of the firmware */
	set("/sys/class/tty/ttyS0/power/wakeup", "enabled");
	set("/sys/class/tty/ttyS0/device/power/wakeup", "enabled");
	err = set("/sys/power/state", to);
	printf("guest: suspended to %s: %s\n", to, strerror(err));
}

static void obey(void)
{
	static pid_t holder;
	char words[64];
	ssize_t n = read(0, words, sizeof(words) - 1);

	if (n > 0)
		words[n] = 0;
	if (n > 0 && words[0] == 'r')
		reboot(RB_AUTOBOOT);
	if (n > 0 && words[0] == 'o')
		reboot(RB_POWER_OFF);
	if (n > 0 && words[0] == 'p')
		await("program ended", start("/gpu/program", NULL));
	if (n > 0 && words[0] == 'h')
		holder = start("/gpu/call", "hold");
	if (n > 0 && words[0] == 'e') {
		kill(holder, SIGKILL);
		await("holder ended", holder);
		holder = 0;
	}
	if (n > 0 && words[0] == 'k')
		keep();
	if (n > 0 && words[0] == 'm')
		suspend("mem");
	if (n > 0 && words[0] == 'd')
		suspend("disk");
	if (n > 0 && words[0] == 's')
		startWith(words);
	if (n > 0 && words[0] == 'x')
		kill(atoi(words + 1), SIGKILL);
	sayEnded(holder);
}

int main(void)
{
	char line[200];
	FILE *list;
	int is = 0;

	mount("none", "/dev", "devtmpfs", 0, NULL);
	mkdir("/proc", 0755);
	mount("none", "/proc", "proc", 0, NULL);
	mkdir("/tmp", 01777);
	setenv("LD_LIBRARY_PATH", "/gpu", 1);
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
		usleep(20000);
	}
}
