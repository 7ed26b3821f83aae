// SPDX-License-Identifier: Apache-2.0

// Package starter is the process that starts the others of a VM. The device process parses what
// guests send, so it isn't allowed to execute programs: it asks this one, which parses nothing from
// a guest and does nothing else.
//
// # Who owns what
//
// Serve is the starter process's loop: the children are its own, and it waits for them. A Client is
// the device process's end; a Process there is a child, with a descriptor (pidfd) that still names
// it when the starter process is gone. When the Client is closed, or the device process ends, the
// starter process ends, and the kernel ends the children with it.
//
// A device process that crashes may have left its end with another process, for the next device
// process, which takes the children over (Resume). For that, the starter process keeps a descriptor
// of each. If it is gone as well, a child that somebody has kept a descriptor of is an Orphan.
//
// # Who may lie
//
// A device process that was taken over. It can ask to start children of a few roles, each with one
// socket and a limited number at a time; to count the children's memory, of GPUs and of the host;
// to open a file in memory, which it has, once more, to be read only; to take all permissions of a
// file without a name, which it has; to make files in memory for the children, of which the starter
// process keeps half as many as it may have files; and to connect to sockets, or remove others,
// that were named when the starter process started. The device process believes the starter process
// about how a child ended, but only the kernel that it has ended.
package starter
