// SPDX-License-Identifier: Apache-2.0

package simt

// fastExecs are the operations with a loop of their own, by the keys that
// decoder.compute is given.
var fastExecs = map[string]execFunc{}

// fastAccess returns a faster version of a memory instruction, or nil.
func fastAccess(in *inst, store bool) execFunc { return nil }
