// SPDX-License-Identifier: Apache-2.0

// Package vhostuser is the back-end side of the vhost-user protocol, for any device: it serves one
// front end (QEMU, User Mode Linux, Cloud Hypervisor, ...) over a Unix socket and turns its
// messages into calls of a Device.
//
// # Trust
//
// The front end may send anything: any bytes, any descriptors, in any order, at any pace. A message
// that is wrong is refused, its descriptors are closed, and the session goes on, since QEMU can't
// reconnect a device. The session ends only if the stream's messages can't be told apart any more.
// A panic of the Device is caught and counted; its message is refused in the same way.
//
// One thing can't be seen: if a front end has given its own end of the socket away, to a child or
// back to the session, its death doesn't close the socket. Such a session ends by Close or by its
// context.
//
// How a refusal looks depends on the message. One that has an answer of its own is answered with a
// header and no payload. Others are answered with a non-zero word, if the front end asked for a
// reply (REPLY_ACK), and are logged in any case.
//
// # Rings
//
// A ring is handed to the device when all that it needs has arrived, in any order: size, addresses
// that lie in the memory table, a kick message, and permission to run (SET_VRING_ENABLE; without
// VHOST_USER_F_PROTOCOL_FEATURES, rings have that from the start). It is taken back by
// GET_VRING_BASE, by disabling, by a reset, and around a memory change that removes a region.
//
//	            kick, size, addresses, memory, enabled
//	stopped ------------------------------------------> running
//	   ^  ^     GET_VRING_BASE: needs a new kick          |  |
//	   |  +-----------------------------------------------+  |
//	   +-----------------------------------------------------+
//	            disabled, memory removed: comes back by itself
//
// # Migration
//
// A VM can be migrated while it runs if its Device can say which pages it writes to, a DirtyLogger.
// The front end gives a bitmap by SET_LOG_BASE, turns it on and off by VHOST_F_LOG_ALL, also while
// rings run, and reads and clears it at any time. The session checks that it has a bit for each
// page of the memory. While VHOST_F_LOG_ALL is accepted, all used rings are logged, also those
// without VHOST_VRING_F_LOG: a bit too many costs a page's transfer, one too few costs the guest.
// QEMU ignores the answer to SET_LOG_BASE, so it can't be told that a log is unusable: the session
// notes it.
//
// After an unusable log the device's state isn't saved. A StateSaver's own state goes through a
// descriptor from the front end (DEVICE_STATE), while no ring runs. If the front end moves no bytes
// for the timeout, or sends another message, the transfer has failed.
//
// # Crashes
//
// A Device that keeps a record of what its queues have in flight, an InFlightTracker, can be
// replaced after a crash: the front end asks for the record's file once (GET_INFLIGHT_FD), holds
// it, and hands it to each back end (SET_INFLIGHT_FD) before the rings run. For a front end that
// doesn't ask, none is kept.
//
// What a front end has said can be kept as well, by Options.Keep. Restore makes a session from it,
// in another process that has the socket and the descriptors, and the front end doesn't notice. A
// snapshot comes from a process that crashed, so it is trusted no more than a front end.
//
// # Concurrency
//
// Run owns the session, and calls the Device from its goroutine only, one call at a time; SaveState
// and LoadState from another one, with no other call meanwhile.
// ConfigChanged, Panics and Close may be called from anywhere.
//
// # Ownership
//
// Every descriptor that arrives has one owner, an FD. Those in a QueueConfig and in a Memory belong
// to the session; a device that needs them for longer, or passes them to another process,
// duplicates them.
//
// # Files
//
//	the session        session.go device.go (what it calls) handlers.go features.go errors.go
//	the stream         listen.go conn.go peek.go outbox.go message.go payload.go trace.go
//	descriptors        fd.go event.go descriptors.go (messages that bring some)
//	memory             memory.go memtable.go (its messages)
//	rings              ring.go shown.go (what a session was told)
//	migration          log.go state.go
//	crashes            inflight.go snapshot.go snapshotwire.go (in bytes) restore.go
package vhostuser
