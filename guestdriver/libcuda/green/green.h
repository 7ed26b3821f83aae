/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_GREEN_H
#define PARACUDA_GREEN_H

#include "context/context.h"

/* Ends the green contexts of a primary context that ends. */
void green_retire_all(struct context *base);

#endif
