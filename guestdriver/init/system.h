/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a running system that a program expects: files, devices, modules. */
#ifndef PARACUDA_SYSTEM_H
#define PARACUDA_SYSTEM_H

#include "job.h"

/* system_early makes the devices of an initramfs usable and loads its modules. */
int system_early(void);

/* system_enter_host makes the host's files, shared by virtiofs, the root. */
int system_enter_host(const char *tag);

/* system_mount mounts what the host's files cannot provide: /proc, /dev, /sys. */
int system_mount(void);

/* system_modules loads the job's kernel modules and waits for its device. */
int system_modules(const struct job *job);

#endif
