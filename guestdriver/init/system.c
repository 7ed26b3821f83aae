/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "problem.h"

#define EARLY_LIST "/modules/list"

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
	return 0;
}

/* A device is waited for for two seconds. */
enum { DEVICE_TRIES = 100, DEVICE_PAUSE_US = 20000 };

static int wait_for_device(const char *file)
{
	for (int tries = 0; tries < DEVICE_TRIES; tries++) {
		if (access(file, F_OK) == 0)
			return 0;
		usleep(DEVICE_PAUSE_US);
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
