// SPDX-License-Identifier: Apache-2.0

// Package starter is the process that starts the others of a VM. The device process parses what
// guests send, so it isn't allowed to execute programs: it asks this one, which parses nothing of a
// guest's and does nothing else.
//
// # Who owns what
//
// Serve is the starter process's loop: the children are its own, and it waits for them. A Client is
// the device process's end; a Process of its is a child, by a descriptor that goes on naming it
// (pidfd) when the starter process is gone. When the Client is closed, or the device process ends,
// the starter process ends, and the kernel ends the children with it.
//
// A device process that crashes may have left its end with another process, for the next device
// process: that takes the children over (Resume). The starter process has a descriptor of each for
// it.
//
// # Who may lie
//
// The starter process believes nothing of a device process that was taken over. It can be asked to
// start one of a few roles with one socket, so many at a time; to count the memory of its own
// children; to connect to sockets that it was told at its start, and to remove others. The device
// process believes the starter process how a child ended, but that it has ended only the kernel.
package starter
