// SPDX-License-Identifier: Apache-2.0

// Package device is the vhost-user device of one VM: what `paracuda device` runs. It faces the
// front end, answers the control queue, and starts a worker process for each guest process and one
// mover process for the VM (docs/protocol.md). It executes no command itself and links to no GPU.
//
// # Who owns what
//
// A Device joins parts (parts.go), each a package with locks of its own. If a part needs something
// of another, it gets a function, or that part; none knows the Device, which has no lock of its
// own.
//
// The session's goroutine calls the vhostuser.Device methods. The control queue belongs to one
// goroutine (package control). Each worker has one goroutine that waits for its end (package
// workers).
//
// Locks are taken in this order, and none for a wait:
//
//	settings  while new ones are put in force
//	control   the control queue, from one start to the next
//	ahead     what is held before programs ask for it; and reach, who has the mover
//	channels  who has which queue
//	strangers whose driver isn't ours
//	ram       the guest's memory, while it is used
//
// then those of parts that call nobody with theirs: accounts, saving, movers, exports, a worker's.
//
// # Who may lie
//
// Guest, front end and workers, all of them. Stock QEMU can't reconnect, and aborts when this
// process ends. So nothing that they do may end it: a queue that makes no sense is left alone, a
// worker that doesn't answer is killed, and whatever a worker held is returned to the guest from
// the record that it shares (handover.State).
//
// # Files
//
//	the device         device.go (the session's) parts.go (which parts there are)
//	                   config_space.go guard.go (what goes on)
//	the control queue  package control
//	channels           packages channels, queues, strangers (drivers that aren't ours) and away
//	                   (the device is unplugged for a while)
//	processes          process.go (packages workers, movers, child) packages opening (who gets a
//	                   worker), reach (and the mover) and ahead (warm workers, an idle VM);
//	                   takenover.go (those of the device process before: package takeover)
//	what they share    packages objects and exports; descriptors.go (when programs are saved)
//	memory             packages ram, mappings (what workers map of it), accounts and suspend;
//	                   hostuse.go (what workers may have of the host's)
//	saved              packages savedstate (the VM, for its front end), saving (its programs, there
//	                   and in a file) and infile (another process goes on from that); migration.go
//	                   (packages outgoing and incoming: device memory ahead of a migration;
//	                   passes: how it is copied while programs run, also to a file)
//	the GPUs           place.go (package place: shared with other VMs) and package faults (which
//	                   are broken, or gone)
//	operators          operators.go (packages admin, figures) set.go (package settings)
//	waiting            package await
package device
