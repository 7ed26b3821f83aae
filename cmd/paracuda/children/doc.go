// SPDX-License-Identifier: Apache-2.0

// Package children starts the processes of a VM: workers, its mover, and the one that asks NVIDIA's
// driver for the use of the GPU. It has the commands that they execute, too. In the sandbox a
// starter process starts them for the device process, which can't, in namespaces of their own.
//
// # Who owns what
//
// A device process owns its Home, and has its processes ended by Home.End. Where a keeper is, the
// next device process takes over the starter process and what that has started.
//
// # Who may lie
//
// A device process that a guest has taken over: the starter process starts the roles that there are
// and removes the sockets that it was told of at its beginning, and nothing else (package starter).
//
// # Files
//
//	home.go        all that the device process has
//	client.go      a starter process, as the device process sees it
//	orphans.go     children whose starter process has died
//	starter.go     the starter process
//	tree.go        what they see of the host's files, and the first process of their namespace
//	spawn.go       how one is started; layout.go, rank.go (who goes first when memory is short),
//	               processors.go (how many they use)
//	commands.go    what children execute: worker.go, mover.go, usage.go
//	confined.go    what they give up when they are ready; driverfiles.go (what they keep)
//	log.go         where they log
package children
