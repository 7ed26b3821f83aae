/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a running system that a program expects: files, devices, modules. */
#ifndef PARACUDA_SYSTEM_H
#define PARACUDA_SYSTEM_H

#include "job.h"

/* system_early makes the devices of an initramfs usable and loads its modules. */
int system_early(void);

/* system_enter_host makes the host's files, shared by virtiofs, the root. */
int system_enter_host(const char *tag);

/* system_mount mounts what the host's files cannot provide: /proc, /dev, /tmp... */
int system_mount(void);

/*
 * system_home makes the home directory that env names writable, in memory: programs
 * keep caches there. Where that can't be done it stays read-only.
 */
void system_home(char *const *env);

/* system_modules loads the job's kernel modules and waits for its device. */
int system_modules(const struct job *job);

/* system_problem says in words what the call that returned -1 could not do. */
const char *system_problem(void);

#endif
