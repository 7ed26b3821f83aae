/* SPDX-License-Identifier: Apache-2.0 */
/* The checks. Each looks at one thing and fills in what it found. */
#ifndef PARACUDA_DOCTOR_CHECKS_H
#define PARACUDA_DOCTOR_CHECKS_H

#include "report.h"

/* device.c */
void check_device(struct finding *f);
void check_node(struct finding *f);
void check_channel(struct finding *f);
void check_nvidia_nodes(struct finding *f);

/* module.c */
void check_module(struct finding *f);
void check_installed(struct finding *f);
void check_headers(struct finding *f);

/* library.c */
void check_library(struct finding *f);
void check_nvidia_smi(struct finding *f);

/* containers.c */
void check_containers(struct finding *f);

/* compute.c */
void check_computation(struct finding *f);

/* Fixes a library and a driver that aren't from the same package. */
#define REINSTALL "apt-get install --reinstall paracuda-guest"
#define RELOAD "modprobe -r paracuda && modprobe paracuda"

#endif
