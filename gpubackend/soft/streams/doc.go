// SPDX-License-Identifier: Apache-2.0

// Package streams owns the streams and events of a software GPU, the order of what is in them, host
// functions, and captures.
//
// A stream is a chain of tasks, the legacy default stream has edges to and from the blocking
// streams, an event is a task that does nothing but note the time. To put work into a stream, a
// room asks for the stream (Target), and whether it is being captured (Recording): then the work
// becomes a node of a graph (Record), else a task (Enqueue).
//
// Files: stream.go (the room, streams and their order), attributes.go, event.go, hostfunc.go,
// memops.go (operations on words of memory), all.go (events of whole contexts), capture.go,
// captureevent.go, captureinfo.go, announce.go, saved.go (events of another device).
//
// Handles come from the guest and are looked up. A Streams belongs to one goroutine; tasks are the
// scheduler's once they are in a stream.
package streams
