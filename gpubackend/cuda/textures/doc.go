// SPDX-License-Identifier: Apache-2.0

// Package textures has the arrays, texture and surface objects, and references.
//
//	textures.go    what the others share, and the driver's functions
//	arrays.go      arrays, which count as device memory, and copies of them
//	objects.go     texture and surface objects
//	references.go  references of modules
//	saved.go       what another process needs to have the same
//
// Structures are CUDA's own; the handles and addresses in them have been looked up by the caller,
// who gives them in the sizes that gpubackend names.
package textures
