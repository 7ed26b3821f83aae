/* SPDX-License-Identifier: Apache-2.0 */
/* The client's buffers, which it gives when there are records and gets back full. */
#ifndef PARACUDA_CUPTI_BUFFERS_H
#define PARACUDA_CUPTI_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

typedef void buffer_request(uint8_t **buffer, size_t *bytes, size_t *records);
typedef void buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
			     size_t valid);

void buffers_use(buffer_request *request, buffer_complete *complete);

/*
 * Asks the client for a buffer if there is none. It must be called when there is something to
 * record: PyTorch doesn't ask for records unless a buffer was requested.
 */
void buffers_ready(void);

/* Appends a record, or counts it as dropped. */
void buffers_write(const void *record, size_t bytes);

/* Gives the client the records that it hasn't got yet. */
void buffers_finish(void);

/* A record that was lost. */
void buffers_drop(void);

#endif
