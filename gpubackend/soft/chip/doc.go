// SPDX-License-Identifier: Apache-2.0

// Package chip has the properties of the software GPU, each in one place: numbers that attributes
// report and calls are checked against, and the occupancy that follows from them. It has no state.
//
// Files: attributes.go, inventory.go, nvlinks.go and atomics.go (what the guest is told),
// multiprocessor.go (occupancy), sizes.go (bounds on grids, arrays and textures).
package chip
