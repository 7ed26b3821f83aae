// SPDX-License-Identifier: Apache-2.0

// Package textures owns the arrays, mipmapped arrays, texture and surface objects of a software
// GPU, and the texture and surface references of its modules.
//
// An array is device memory without gaps between rows. What kernels use of a texture or surface
// never changes: objects are found by number when an instruction runs, references are what they
// were bound to when the launch was queued (Bindings). Objects and arrays that are destroyed stay
// until the work is done that was queued before.
//
// Files: textures.go (the room), array.go, texture.go (objects), view.go, reference.go,
// referencestate.go, saved.go (for another device).
//
// Descriptions come from the guest, and are read once and checked. A Textures belongs to one
// goroutine, except for the table in which kernels find objects (KernelObjects).
package textures
