// SPDX-License-Identifier: Apache-2.0

// Package chip is what the software GPU says that it is: numbers that attributes tell and calls are
// checked against, each in one place, and what follows from them for a kernel. It has no state.
//
// Files: attributes.go, inventory.go, nvlinks.go and atomics.go (what the guest is told),
// multiprocessor.go (occupancy), sizes.go (bounds on grids, arrays and textures).
package chip
