/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_LOGS_H
#define PARACUDA_LOGS_H

/* Keeps a message for cuLogsDumpToMemory and its like, and passes it to those that asked for it. */
void logs_add(const char *message);

#endif
