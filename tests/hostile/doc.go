// SPDX-License-Identifier: Apache-2.0

// Package hostile attacks a device process as a guest's library, a guest's kernel and a front end
// can: the real program with the software GPU on one side, rings and arenas written by hand on the
// other. A worker that was taken over (package takenover) attacks it, the mover and the host from
// within the sandbox. After each attack a program on another channel computes as if nothing had
// happened, and so does one on the channel that was attacked.
//
// The attacks are described once, here. The tests do them to device processes that they start, and
// two programs do them to one that is there already:
//
//	go run ./tests/hostile/frontend --socket SOCKET
//	go run ./tests/hostile/driver --socket SOCKET
//
// They connect as QEMU does, and print what came of each case. --list lists the cases, --case NAME
// chooses some, and --help says how to start a device process for them. The exit status is 1 if the
// device process has died or broken a promise. Run them as root: otherwise they can't count the
// descriptors of the device's processes.
//
// # Files
//
// program.go (both programs), target.go (the device process, as seen from its host), scope.go (in
// place of a test), guest.go and channel.go (what is on the VM's side), attack.go (the driver and
// its cases, which are in attacks.go, chains.go, mapping.go, share.go and gpu.go), random.go (a
// guest that does anything), frontend.go and sessions.go (the front end and its cases).
package hostile
