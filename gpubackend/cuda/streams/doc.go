// SPDX-License-Identifier: Apache-2.0

// Package streams has the streams and events: which have work, which are idle, which capture, and
// which host functions streams call. Nothing here waits for work.
//
//	streams.go   making and ending streams, and whether they are idle
//	announce.go  writes by which a stream says that it is idle
//	events.go    events
//	capture.go   captures
//	saved.go     times of events that another process recorded
//	hostfunc.go  host functions (package hostfuncs carries the calls)
//
// Which streams may have work is kept with each context (package activity).
package streams
