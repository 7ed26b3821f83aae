// SPDX-License-Identifier: Apache-2.0

// Package offers gives memory and events of this process to other workers of the VM that know a
// secret, which the guest hands on. They ask the device process, which asks the worker that shares
// it, and passes the file on (package shares): a worker receives files from nobody else.
//
// A program that goes on from a record offers under the secrets that it had: the guest has handed
// them on.
//
// # Who owns what
//
// An Offer belongs to its opener, and has its file until Close. The owner bounds how many offers a
// guest can have. The worker's loop waits until the device process knows of an offer: only then
// does the guest get the secret, which another program may use at once. The loop asks for one thing
// at a time (Receive), and waits. Whoever receives the device process's messages answers for
// offers, and brings what the loop waits for (Obey), on another goroutine: the loop may wait for a
// worker that waits for this one.
//
// # Who may lie
//
// The device process is believed, and waited for. What another worker gives is as trustworthy as
// that worker, which executes a guest's commands: the receiver checks it.
package offers
