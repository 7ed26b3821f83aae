// SPDX-License-Identifier: Apache-2.0

// Package device is the vhost-user device of one VM: what `paracuda device` runs. It faces the
// front end, answers the control queue, and starts a worker process for each guest process and one
// mover process for the VM (docs/protocol.md). It executes no command itself and links to no GPU.
//
// # Who owns what
//
// The session's goroutine calls the vhostuser.Device methods. The control queue belongs to one
// goroutine (package control). Each worker has one goroutine that waits for its end. What they
// share, the channels, is under Device.mu. A channel's queue belongs to its worker while there is
// one, else to this process. The packages below this one have locks of their own, which are taken
// after Device.mu, if that is held; none of them knows the Device.
//
// # Who may lie
//
// Guest, front end and workers, all of them. Stock QEMU can't reconnect and aborts when this
// process goes, so nothing that they do may end it: a queue that makes no sense is left alone, a
// worker that doesn't answer is killed, and whatever a worker held is returned to the guest from
// the record that it shares (handover.State).
//
// # Files
//
//	the device         device.go config_space.go state.go (package savedstate: for
//	                   migration) dirty.go guard.go (what goes on)
//	the control queue  open.go (OPEN; package control) stranger.go telling.go
//	channels           channel.go (package queues) table.go standstill.go (pause, resume)
//	processes          process.go (package workers) starts.go (how many begin) lingering.go
//	                   mover.go (package movers) warm.go (package warm) idle.go (package idle)
//	what they share    share.go (packages objects and exports)
//	memory             memory.go (package accounts) suspension.go (package suspend)
//	                   saving.go (package saving)
//	sharing the GPU    place.go (package place)
//	operators          stats.go (package admin) set.go (package settings)
package device
