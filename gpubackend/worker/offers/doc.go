// SPDX-License-Identifier: Apache-2.0

// Package offers gives memory and events of this process to other workers of the same user that
// know a secret, which the guest hands on.
//
// They find an offer by a socket whose name is a hash of the secret: every user of the host can
// read sockets' names (/proc/net/unix), and connect. So a client must send the secret itself, and
// be of this process's user. A client checks the user of the listener, too, before it sends the
// secret: somebody else could have taken the name.
//
// A program that goes on from a record offers under the secrets that it had: the guest has handed
// them on. Two VMs may go on from one record. So each VM has a Realm of names.
//
// # Who owns what
//
// An Offer belongs to its opener, and has a goroutine and a socket until Close; the goroutine owns
// the file and closes it after the last client. The owner bounds how many offers a guest can have.
//
// # Who may lie
//
// A client may be anybody, and say anything, or nothing: it doesn't hold up others. What another
// worker gives is as trustworthy as that worker, which executes a guest's commands: the receiver
// checks it.
package offers
