// SPDX-License-Identifier: Apache-2.0

// Package cmem is memory of C, whose addresses the driver's library may be given: buffers that a
// caller allocates and frees, and what the library itself returned. It checks nothing: lengths and
// addresses are the caller's to have right. No Go pointer is ever stored in it.
package cmem
