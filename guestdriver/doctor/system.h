/* SPDX-License-Identifier: Apache-2.0 */
/* The VM's files, as the checks see them. */
#ifndef PARACUDA_DOCTOR_SYSTEM_H
#define PARACUDA_DOCTOR_SYSTEM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Stands before the path of every file; "" is this VM. */
extern const char *root;

/* A path of the VM. One that is too long is cut, and isn't found then. */
struct path {
	char text[PATH_MAX];
};
struct path at(const char *format, ...) __attribute__((format(printf, 1, 2)));

bool exists(const char *path);
/* The first word of a file, whose path includes the root; "" if there is none. */
void word(const char *path, char *out, size_t room);
/* The last name in what a link points to; "" if it isn't one. */
void link_name(const char *path, char *out, size_t room);
/* Whether a line of a file has a text in it. */
bool file_has(const char *path, const char *text);
/* The first line that a command prints; returns its exit status, -1 if it didn't end by itself. */
int first_line(const char *command, char *out, size_t room);
/* The release of the kernel that runs. */
const char *kernel(void);

#endif
