// SPDX-License-Identifier: Apache-2.0

// Package green owns the parts that a software GPU's multiprocessors are split into, and makes
// green contexts of them. A multiprocessor is no more than a number here; streams of a green
// context tell their kernels which numbers they have.
//
// Resources and descriptors come from the guest as the driver made them: the guest can't write what
// is in them.
package green
