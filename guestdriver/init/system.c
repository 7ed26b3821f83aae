/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define EARLY_LIST "/modules/list"

static char problem_text[512];

const char *system_problem(void)
{
	return problem_text;
}

/* problem keeps the words and errno's own for system_problem, and returns -1. */
__attribute__((format(printf, 1, 2))) static int problem(const char *format, ...)
{
	int e = errno, n;
	va_list ap;

	va_start(ap, format);
	n = vsnprintf(problem_text, sizeof(problem_text), format, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(problem_text))
		snprintf(problem_text + n, sizeof(problem_text) - n, ": %s", strerror(e));
	return -1;
}

static int load_module(const char *file, const char *parameters)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return problem("open module %s", file);
	ret = syscall(SYS_finit_module, fd, parameters, 0);
	if (ret < 0 && errno != EEXIST)
		ret = problem("load module %s", file);
	else
		ret = 0;
	close(fd);
	return ret;
}

static int load_early_modules(void)
{
	FILE *list = fopen(EARLY_LIST, "re");
	char file[256];
	int ret = 0;

	if (!list)
		return problem("open " EARLY_LIST);
	while (ret == 0 && fscanf(list, "%255s", file) == 1)
		ret = load_module(file, "");
	fclose(list);
	return ret;
}

int system_early(void)
{
	mkdir("/dev", 0755);
	if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) < 0 && errno != EBUSY)
		return problem("mount /dev");
	return load_early_modules();
}

int system_enter_host(const char *tag)
{
	mkdir("/host", 0755);
	if (mount(tag, "/host", "virtiofs", MS_RDONLY, NULL) < 0)
		return problem("mount the host's files");
	if (chdir("/host") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0)
		return problem("move the host's files to /");
	if (chroot(".") < 0 || chdir("/") < 0)
		return problem("enter the host's files");
	return 0;
}

/*
 * mount_layer lays a writable layer, kept in memory under name, over a directory
 * of the host's. Where a file system is mounted on the host, virtiofs mounts it
 * when it is opened, and an overlay takes what is mounted there only.
 */
static int mount_layer(const char *dir, const char *name, mode_t mode)
{
	char upper[64], work[64], layers[512];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	close(fd);
	mkdir("/dev/shm/.layers", 0700);
	snprintf(work, sizeof(work), "/dev/shm/.layers/%s", name);
	mkdir(work, 0700);
	snprintf(upper, sizeof(upper), "/dev/shm/.layers/%s/upper", name);
	mkdir(upper, mode);
	chmod(upper, mode);
	snprintf(work, sizeof(work), "/dev/shm/.layers/%s/work", name);
	mkdir(work, 0700);
	if ((size_t)snprintf(layers, sizeof(layers), "lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work) >= sizeof(layers)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return mount(name, dir, "overlay", MS_NOSUID | MS_NODEV, layers);
}

/* mount_tmp makes the host's /tmp writable, where the program and its data may well lie. */
static int mount_tmp(void)
{
	if (mount_layer("/tmp", "tmp", 01777) < 0)
		return problem("mount /tmp");
	return 0;
}

void system_home(char *const *env)
{
	const char *home = NULL;
	struct stat s;

	for (; *env; env++)
		if (strncmp(*env, "HOME=", 5) == 0)
			home = *env + 5;
	if (!home || home[0] != '/' || strpbrk(home, ",:\\") || strcmp(home, "/") == 0 || strcmp(home, "/tmp") == 0 ||
	    strncmp(home, "/tmp/", 5) == 0)
		return;
	if (stat(home, &s) == 0 && S_ISDIR(s.st_mode))
		mount_layer(home, "home", s.st_mode & 07777);
}

static void loopback_up(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
}

int system_mount(void)
{
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return problem("mount /proc");
	if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return problem("mount /sys");
	if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, NULL) < 0 && errno != EBUSY)
		return problem("mount /dev");
	mkdir("/dev/pts", 0755);
	mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=620,ptmxmode=666");
	mkdir("/dev/shm", 01777);
	if (mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") < 0)
		return problem("mount /dev/shm");
	symlink("/proc/self/fd", "/dev/fd");
	symlink("/proc/self/fd/0", "/dev/stdin");
	symlink("/proc/self/fd/1", "/dev/stdout");
	symlink("/proc/self/fd/2", "/dev/stderr");
	sethostname("paracuda", 8);
	loopback_up();
	return mount_tmp();
}

static int wait_for_device(const char *file)
{
	for (int tries = 0; tries < 100; tries++) {
		if (access(file, F_OK) == 0)
			return 0;
		usleep(20000);
	}
	errno = ENODEV;
	return problem("wait for %s: the guest driver found no device", file);
}

/* make_nodes makes what programs look for, and never open, before they try CUDA. */
static void make_nodes(void)
{
	mknod("/dev/nvidiactl", S_IFCHR | 0666, makedev(195, 255));
	mknod("/dev/nvidia0", S_IFCHR | 0666, makedev(195, 0));
}

int system_modules(const struct job *job)
{
	for (size_t i = 0; i < job->module_count; i++)
		if (load_module(job->modules[i].file, job->modules[i].parameters) < 0)
			return -1;
	if (!job->wait)
		return 0;
	if (wait_for_device(job->wait) < 0)
		return -1;
	make_nodes();
	return 0;
}
