/* SPDX-License-Identifier: Apache-2.0 */
/* The driver: the one that is loaded, and the one for the next boot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "paracuda_wire.h"
#include "system.h"

#define MODULE "/sys/module/paracuda"

static bool installed(void)
{
	return file_has(at("/lib/modules/%s/modules.dep", kernel()).text, "/paracuda.ko");
}

/* Where a package has put the driver: see paracuda-pack-modules. */
#define PACKED "/lib/modules/%s/extra/paracuda"

static bool packed(void)
{
	return file_has(at("/lib/modules/%s/modules.dep", kernel()).text,
			"extra/paracuda/paracuda.ko");
}

static bool has_headers(void)
{
	return exists(at("/lib/modules/%s/build", kernel()).text);
}

/* The command that builds the driver for this kernel. */
static void fixed_by_building(struct finding *f)
{
	if (!exists(at("/usr/sbin/dkms").text))
		fixed_by(f, "apt-get install dkms linux-headers-%s && %s", kernel(),
			 "dpkg-reconfigure paracuda-guest");
	else if (has_headers())
		fixed_by(f, "dkms autoinstall -k %s && modprobe paracuda", kernel());
	else
		fixed_by(f, "apt-get install linux-headers-%s", kernel());
}

/* Whether this kernel loads only signed modules, as with Secure Boot. */
static bool wants_signatures(void)
{
	const char *lockdown = "/sys/kernel/security/lockdown";
	char enforced[8];

	word(at("/sys/module/module/parameters/sig_enforce").text, enforced, sizeof(enforced));
	return enforced[0] == 'Y' || file_has(at("%s", lockdown).text, "[integrity]") ||
	       file_has(at("%s", lockdown).text, "[confidentiality]");
}

static void check_not_loaded(struct finding *f)
{
	if (!wants_signatures()) {
		bad(f, "modprobe paracuda", "paracuda is installed and not loaded");
		return;
	}
	bad(f, "",
	    "paracuda is installed and not loaded, and this kernel wants modules signed "
	    "by a key that it knows (Secure Boot)");
	if (exists(at(PACKED "/mok.pub", kernel()).text))
		fixed_by(f, "mokutil --import " PACKED "/mok.pub && reboot", kernel());
	else
		fixed_by(f, "mokutil --import /var/lib/dkms/mok.pub && reboot");
}

void check_module(struct finding *f)
{
	char version[32];

	if (exists(at(MODULE).text)) {
		word(at(MODULE "/version").text, version, sizeof(version));
		if (atoi(version) == PARACUDA_VERSION)
			good(f, "paracuda is loaded, of protocol version %s", version);
		else
			bad(f, RELOAD,
			    "the driver that is loaded is of protocol version %s, "
			    "this package of %d",
			    version[0] ? version : "unknown", PARACUDA_VERSION);
	} else if (installed()) {
		check_not_loaded(f);
	} else {
		bad(f, "", "there is no driver for the kernel %s%s", kernel(),
		    has_headers() ? "" : ", whose headers are missing");
		fixed_by_building(f);
	}
}

void check_installed(struct finding *f)
{
	char loaded[64], next[64];

	if (!installed()) {
		warn(f, "", "no driver for the kernel %s: there is none after a boot", kernel());
		fixed_by_building(f);
		return;
	}
	word(at(MODULE "/srcversion").text, loaded, sizeof(loaded));
	first_line("modinfo -F srcversion paracuda", next, sizeof(next));
	if (loaded[0] && next[0] && strcmp(loaded, next))
		warn(f, RELOAD, "another driver is installed than the one that is loaded");
	else
		good(f, "the driver is installed for the kernel %s", kernel());
}

void check_headers(struct finding *f)
{
	if (has_headers()) {
		good(f, "those of the kernel %s are there", kernel());
		return;
	}
	if (packed()) {
		good(f, "none are needed: the driver for the kernel %s is a package's", kernel());
		return;
	}
	warn(f, "", "those of the kernel %s are missing: no driver can be built", kernel());
	fixed_by(f, "apt-get install linux-headers-%s", kernel());
}
