/* SPDX-License-Identifier: Apache-2.0 */
/* The device on its bus, its node, and whether a channel can be had. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checks.h"
#include "paracuda_ioctl.h"
#include "paracuda_wire.h"
#include "system.h"

#define ATTACH "paracuda attach --qmp SOCKET --device SOCKET (on the host)"

/* A virtio device's number on PCI is its id plus this. */
#define PCI_OFFSET 0x1040

static bool may_be_ours(unsigned long id)
{
	return id == PARACUDA_VIRTIO_ID || id == PARACUDA_VIRTIO_ID_STOCK ||
	       id == PARACUDA_VIRTIO_ID_FS;
}

/* The number in a file. */
static unsigned long number(const char *dir, const char *name)
{
	char text[32], path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return 0;
	word(path, text, sizeof(text));
	return strtoul(text, NULL, 16);
}

/* The last name of a path. */
static const char *last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* To whom a device that may be ours belongs. Later ones are reported first. */
enum whose { NONE, OTHER_DRIVERS, WITHOUT_DRIVER, OURS };

/* The devices of a bus that may be ours. */
struct seen {
	enum whose best;
	char name[64], driver[64]; /* of one that is that */
};

static enum whose whose(const char *driver)
{
	if (!driver[0])
		return WITHOUT_DRIVER;
	return strcmp(driver, "paracuda") ? OTHER_DRIVERS : OURS;
}

static struct seen look_at_virtio(void)
{
	struct seen seen = { 0 };
	glob_t found;

	if (glob(at("/sys/bus/virtio/devices/*").text, 0, NULL, &found))
		return seen;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *dir = found.gl_pathv[i];
		char path[PATH_MAX], driver[64];

		if (!may_be_ours(number(dir, "device")) ||
		    (size_t)snprintf(path, sizeof(path), "%s/driver", dir) >= sizeof(path))
			continue;
		link_name(path, driver, sizeof(driver));
		if (whose(driver) <= seen.best)
			continue;
		seen.best = whose(driver);
		snprintf(seen.name, sizeof(seen.name), "%.60s", last(dir));
		snprintf(seen.driver, sizeof(seen.driver), "%.60s", driver);
	}
	globfree(&found);
	return seen;
}

/* Whether PCI has a device that may be ours but isn't a virtio device yet. */
static bool on_pci_alone(void)
{
	bool alone = false;
	glob_t found;

	if (glob(at("/sys/bus/pci/devices/*").text, 0, NULL, &found))
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char path[PATH_MAX];
		unsigned long device = number(found.gl_pathv[i], "device");

		if (number(found.gl_pathv[i], "vendor") == 0x1af4 && device > PCI_OFFSET &&
		    may_be_ours(device - PCI_OFFSET) &&
		    (size_t)snprintf(path, sizeof(path), "%s/driver", found.gl_pathv[i]) <
			    sizeof(path))
			alone |= !exists(path);
	}
	globfree(&found);
	return alone;
}

/* What the driver logs when it refuses a device, and what fixes that. */
static const struct {
	const char *says, *fix;
} complaints[] = {
	{ "no request queues",
	  "-device vhost-user-fs-pci,...,num-request-queues=16 (on the host)" },
	{ "not told config_size", "-device ...,config_size=256 (on the host)" },
	{ "protocol version", "apt-get install ./paracuda-guest_VERSION_amd64.deb (the host's)" },
	{ "does not answer", "paracuda doctor (on the host)" },
	{ "refuses this driver", "paracuda doctor (on the host)" },
};

/* The driver hasn't taken a device. Users other than root may not read why. */
static void explain_refusal(struct finding *f, const char *name)
{
	char line[256];

	setenv("PARACUDA_NAME", name, 1);
	first_line("dmesg 2>/dev/null | sed -n \"s/^.* $PARACUDA_NAME: //p\" |"
		   " grep -v 'taken over' | tail -n 1",
		   line, sizeof(line));
	if (!line[0]) {
		bad(f, "dmesg | grep paracuda",
		    "the driver paracuda hasn't taken %s: the kernel's log says why", name);
		return;
	}
	/* The driver has had the device: this is what it logs then. */
	if (!strncmp(line, "/dev/", 5)) {
		bad(f, "", "%s was taken from the driver paracuda", name);
		fixed_by(f, "echo %s >/sys/bus/virtio/drivers/paracuda/bind", name);
		return;
	}
	bad(f, "dmesg | grep paracuda", "the driver paracuda hasn't taken %s: %s", name, line);
	for (size_t i = 0; i < sizeof(complaints) / sizeof(complaints[0]); i++)
		if (strstr(line, complaints[i].says))
			fixed_by(f, "%s", complaints[i].fix);
}

void check_device(struct finding *f)
{
	struct seen seen = look_at_virtio();

	if (seen.best == OURS)
		good(f, "%s has the driver paracuda", seen.name);
	else if (on_pci_alone())
		bad(f, "modprobe virtio_pci", "there is one on PCI, and no driver of virtio's");
	else if (seen.best == NONE)
		bad(f, ATTACH, "this VM has no device of Paracuda's");
	else if (!exists(at("/sys/module/paracuda").text))
		bad(f, "modprobe paracuda", "%s has no driver: paracuda isn't loaded", seen.name);
	else if (seen.best == OTHER_DRIVERS)
		/* Our driver would have taken its own device from virtiofs. */
		bad(f, ATTACH,
		    "this VM has no device of Paracuda's: %s, which %s has, lacks tag=paracuda",
		    seen.name, seen.driver);
	else
		explain_refusal(f, seen.name);
}

void check_node(struct finding *f)
{
	struct path node = at(PARACUDA_DEVICE);
	struct stat s;

	if (stat(node.text, &s)) {
		if (look_at_virtio().best == OURS)
			bad(f, "podman run --device paracuda.dev/gpu=all ...",
			    "no " PARACUDA_DEVICE ", and there is a device: is this a container?");
		else
			bad(f, "paracuda-doctor device module",
			    "no " PARACUDA_DEVICE ": the driver has no device");
	} else if (!S_ISCHR(s.st_mode)) {
		bad(f, "rm " PARACUDA_DEVICE " && " RELOAD, PARACUDA_DEVICE " is no device node");
	} else if (access(node.text, R_OK | W_OK)) {
		bad(f, "chmod 0666 " PARACUDA_DEVICE, "no permission for " PARACUDA_DEVICE);
	} else if ((s.st_mode & 0666) != 0666) {
		warn(f, "chmod 0666 " PARACUDA_DEVICE,
		     PARACUDA_DEVICE " is not for all users: its mode is %#o", s.st_mode & 0777);
	} else {
		good(f, PARACUDA_DEVICE " is for all users");
	}
}

/* What keeps a process from a channel. */
static const struct {
	int error;
	const char *found, *fix;
} reasons[] = {
	{ EPROTO, "the driver that runs speaks another protocol version than this package",
	  RELOAD },
	{ EBUSY, "all channels are in use: end a CUDA program, or give the VM more",
	  "paracuda device --set channels=N (on the host)" },
	{ EDQUOT, "this user has as many channels as one user may",
	  "echo 100 >/sys/module/paracuda/parameters/user_share" },
	{ ENODEV, "the device is gone: its device process has ended", ATTACH },
	{ EHOSTDOWN, "the host started no worker: the log of paracuda device says why",
	  "paracuda doctor (on the host)" },
	{ ENXIO, "the host has no GPU for this VM", "paracuda doctor (on the host)" },
	{ ENOTTY, PARACUDA_DEVICE " isn't Paracuda's", RELOAD },
	{ EACCES, "no permission for " PARACUDA_DEVICE, "chmod 0666 " PARACUDA_DEVICE },
	{ ENOENT, "no " PARACUDA_DEVICE, "paracuda-doctor device module" },
};

static void explain(struct finding *f, int error)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (reasons[i].error == error) {
			bad(f, reasons[i].fix, "%s", reasons[i].found);
			return;
		}
	}
	bad(f, "dmesg | grep paracuda", "%s: %s", PARACUDA_DEVICE, strerror(error));
}

void check_channel(struct finding *f)
{
	struct paracuda_ioctl_open args = { .version = PARACUDA_VERSION };
	int fd = open(at(PARACUDA_DEVICE).text, O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, PARACUDA_IOC_OPEN, &args))
		explain(f, errno);
	else
		good(f, "one is free; driver and device speak protocol version %d",
		     PARACUDA_VERSION);
	if (fd >= 0)
		close(fd);
}

void check_nvidia_nodes(struct finding *f)
{
	if (exists(at("/dev/nvidia0").text) && exists(at("/dev/nvidiactl").text))
		good(f, "/dev/nvidia0 and /dev/nvidiactl are there, which JAX looks for");
	else
		warn(f, "mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia0 c 195 0",
		     "no /dev/nvidia0 or /dev/nvidiactl, which JAX looks for: no udev?");
}
