/* SPDX-License-Identifier: GPL-2.0 */
/* Part of paracuda-test.c: the driver loses its device while it is used, and gets it back. */

#define DRIVER "/sys/bus/virtio/drivers/paracuda/"

static int tell_driver(const char *file, const char *device)
{
	char path[100];
	int fd, ok;

	snprintf(path, sizeof(path), DRIVER "%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, device, strlen(device)) > 0;
	close(fd);
	return ok;
}

/* The name of the driver's device. */
static int find_device(char *name, size_t room)
{
	DIR *dir = opendir(DRIVER);
	struct dirent *e;
	int found = 0;

	while (dir && !found && (e = readdir(dir))) {
		found = !strncmp(e->d_name, "virtio", 6);
		snprintf(name, room, "%s", e->d_name);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* One that comes back may take a moment to be there. */
static int open_soon(struct paracuda_ioctl_open *o)
{
	int fd, i;

	for (i = 0; i < 100; i++) {
		fd = open(PARACUDA_DEVICE, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !open_channel(fd, o))
			return fd;
		close(fd);
		usleep(100000);
	}
	return -1;
}

static void removed(const char *name, int round)
{
	struct paracuda_ioctl_open o;
	int fd = open_soon(&o);
	char *p = memory(4 * MIB);
	struct sleeper s = { .fd = fd };

	check(fd >= 0, "OPEN of a device that may have come back");
	if (fd < 0)
		return;
	memset(p, round, 4 * MIB);
	expect(map(fd, (long)p, 2 * MIB, STAY), 0, "MAP that stays");
	expect(map(fd, (long)p + 2 * MIB, 2 * MIB, PASS), 0, "MAP for a copy");
	pthread_create(&s.thread, NULL, sleep_on, &s);
	check(tell_driver("unbind", name), "the driver gives up its device");
	pthread_join(s.thread, NULL);
	check(s.error == ENODEV, "this wakes its sleepers");
	expect(ioctl(fd, PARACUDA_IOC_KICK), ENODEV, "KICK without a device");
	check(p[0] == round && p[4 * MIB - 1] == round, "mapped memory stays as it was");
	munmap(p, 4 * MIB);
	close(fd);
	check(tell_driver("bind", name), "the driver takes its device again");
}

static void removals(void)
{
	struct paracuda_ioctl_open o;
	char name[256];
	int fd, i;

	if (!find_device(name, sizeof(name))) {
		check(0, "the driver has a device");
		return;
	}
	for (i = 1; i <= 3; i++)
		removed(name, i);
	fd = open_soon(&o);
	check(fd >= 0, "OPEN at last");
	close(fd);
}
