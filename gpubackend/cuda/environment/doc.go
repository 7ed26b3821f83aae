// SPDX-License-Identifier: Apache-2.0

// Package environment decides which of a guest process's environment variables the driver reads:
// CUDA's own, with values that CUDA documents, and none that names something of the host. The
// variables come from the guest as they are. They are set in the environment of this process.
package environment
