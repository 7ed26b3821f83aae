// SPDX-License-Identifier: Apache-2.0

// Package launches turns calls that launch kernels into tasks. Package simt runs them.
//
// A launch is checked against the function and the device when it is made. What a kernel sees of
// textures and of the context is what they are then. A kernel that fails takes its context along.
//
// Files: launches.go, all.go (several at once).
package launches
