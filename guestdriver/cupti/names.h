/* SPDX-License-Identifier: Apache-2.0 */
/* Names that stay for ever, as records point to them. */
#ifndef PARACUDA_CUPTI_NAMES_H
#define PARACUDA_CUPTI_NAMES_H

/*
 * The one copy of a text; NULL without memory. The caller holds the lock of work.h.
 */
const char *name_keep(const char *text);

#endif
