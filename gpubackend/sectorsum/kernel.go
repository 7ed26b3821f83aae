// SPDX-License-Identifier: Apache-2.0

package sectorsum

import _ "embed" // for the kernel

// Kernel is PTX that computes sums. Its function KernelName has as many blocks as there are
// sectors, each of Lanes threads, and the parameters, of 8 bytes each: the address of the first
// sector, the key, and where the sums are put, one after the other.
//
//go:embed sum.ptx
var Kernel string

// KernelName is the function's name.
const KernelName = "sector_sums"
