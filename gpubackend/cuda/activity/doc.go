// SPDX-License-Identifier: Apache-2.0

// Package activity knows which streams of a context may have work in flight. The driver's own call
// for a whole context (cuCtxSynchronize) waits, and asking the default stream says nothing about
// the others. So each stream is asked that was given work since it was last seen idle.
//
//	activity.go  streams that were given work, and marks of those that can't be asked
//	announce.go  writes behind work, by whose arrival a stream is known to be idle
//
// It is only data: it calls nobody, and belongs to one goroutine. Touch, which each launch calls,
// doesn't allocate.
package activity
