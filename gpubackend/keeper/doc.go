// SPDX-License-Identifier: Apache-2.0

// Package keeper keeps a process's descriptors while that process dies and another takes its place:
// their other ends don't notice. It is the parent of that process, and does nothing else: it uses
// no descriptor, and knows nothing about a child except what to keep.
//
// A child gives descriptors to keep, each under a number that it chooses, and takes them back. The
// next child gets all that is kept, before anything else. A child that ends while nothing is kept
// for it has ended for good; otherwise it has crashed, however it ended, and is replaced. A child
// may also ask to be replaced: that isn't a crash. Neither is it if the child that comes then ends
// before it is ready, as a version may that can't go on: yet another one is started. Each child
// says when it is ready, for whoever waits for the service. Before the first child is ready, and
// after one has dropped everything, Replace doesn't end a child: the next one couldn't go on.
//
// # Messages
//
// They are packets of eight bytes, little-endian: u32 kind, u32 number, with a descriptor or none.
// What a child sent before it died counts. A child needn't wait until its message is read.
//
//	to the child:  1 kept (a descriptor), for each; then 2 begin (number: of crashes so far)
//	to the keeper: 3 keep (a descriptor), 4 drop, 5 drop all, 6 ready, 7 replace
//
// # Trust
//
// A child may send anything, since a guest may have made it do so. A child that sends another
// message, or more than MaxKept descriptors, is ended: that is a crash. If children crash too
// often, they aren't replaced any more: the descriptors are closed, and Run says so. What a child
// keeps it could have held itself: the keeper gives it only to the next child.
//
// A child that can't be started for want of processes, memory or descriptors is tried again: that
// isn't a crash, either.
//
// If the keeper has no room for a descriptor, it drops all: the child goes on, and is the last. The
// descriptors that a start needs are always set aside.
//
// # Concurrency
//
// Run owns the descriptors. Replace and Last may be called from anywhere, as may the methods of a
// Client.
package keeper
