/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the host to which the program can write. */
#ifndef PARACUDA_LAYERS_H
#define PARACUDA_LAYERS_H

#include "job.h"

/*
 * layers_mount makes the job's places writable: the host's directory itself if what is written is
 * kept, otherwise a layer in memory. If a layer other than that of /tmp can't be made, its place
 * stays read-only.
 */
int layers_mount(const struct job *job);

/* layers_keep waits until what is kept has reached the host. */
int layers_keep(void);

/* layers_tell sends the host what ends with the VM. */
void layers_tell(int link);

/*
 * layers_library adds the files of the job's library to the directories in which programs with a
 * LD_LIBRARY_PATH of their own look.
 */
void layers_library(const struct job *job);

#endif
