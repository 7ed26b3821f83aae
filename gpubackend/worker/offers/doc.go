// SPDX-License-Identifier: Apache-2.0

// Package offers gives memory and events of this process to other workers of the same user that
// know a secret, which the guest hands on.
//
// They find an offer by a socket whose name is a hash of the secret: every user of the host can
// read the names of sockets (/proc/net/unix), and connect to them. So whoever connects must send
// the secret itself, and be of this process's user; and so must be who listens, before the secret
// is sent: another could have taken the name.
//
// # Who owns what
//
// An Offer belongs to who opened it, and has a goroutine and a socket until Close; the goroutine
// owns the file and closes it behind the last who asked. How many offers a guest can have is the
// owner's to bound.
//
// # Who may lie
//
// Who connects may be anybody, and say anything, or nothing: it holds up no other. What another
// worker gives is as believable as that worker, which executes a guest's commands: who receives
// checks it.
package offers
