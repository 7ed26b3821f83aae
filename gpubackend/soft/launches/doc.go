// SPDX-License-Identifier: Apache-2.0

// Package launches turns calls that launch kernels into tasks. Package simt runs them.
//
// A launch is checked against the function and the device when it is made. The kernel sees textures
// and the context as they are then. If it fails, so does its context.
//
// Files: launches.go, all.go (several at once).
package launches
