/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM may begin as a copy of one that had booted, and waited for its job. It has other devices
 * then, and must differ in what no two VMs may share.
 */
#ifndef PARACUDA_COPIED_H
#define PARACUDA_COPIED_H

#include <stddef.h>

/*
 * copied_adapt does what FRAME_COPIED asks for: it sets the clock to the host's, seeds the kernel's
 * random numbers, and looks for devices. The frame holds seconds since 1970 (u64), nanoseconds
 * (u64), and bytes that nobody else knows.
 */
int copied_adapt(const char *data, size_t len);

#endif
