/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: to the file that PARACUDA_LOG names ("stderr" for standard error), else nowhere. */
#ifndef PARACUDA_LOG_H
#define PARACUDA_LOG_H

/* Writes one line to the log, if there is one. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes one line to standard error whatever PARACUDA_LOG says: for what a user must fix. */
void log_user(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
