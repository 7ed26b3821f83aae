// SPDX-License-Identifier: Apache-2.0

// Package cmem is memory of C, whose addresses the driver's library may be given: buffers that a
// caller allocates and frees, and what the library itself returned. It checks nothing: the caller
// answers for lengths and addresses. No Go pointer is ever stored in it.
package cmem
