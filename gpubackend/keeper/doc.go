// SPDX-License-Identifier: Apache-2.0

// Package keeper keeps a process's descriptors while that process dies and another takes its place:
// what is connected to them doesn't notice. It is the parent of that process, and does nothing
// else: it looks at no descriptor, and knows of a child only what it wants to have kept.
//
// A child gives descriptors to keep, each under a number that it chooses, and takes them back. The
// next child gets all that is kept, before anything else. A child that ends while nothing is kept
// for it has ended for good; otherwise it has crashed, however it ended, and is replaced. A child
// may also ask to be: that is no crash. Each child says when it is ready, for those who wait for
// the service, which all children are in turn. Until the first has said so, and once one has had
// everything dropped, none is replaced by force: the next one couldn't go on.
//
// # Messages
//
// They are packets of eight bytes, little-endian: u32 kind, u32 number, with a descriptor or none.
// What a child has sent before it died counts. A child needn't wait until its message is read.
//
//	to the child:  1 kept (a descriptor), for each; then 2 begin (number: of crashes so far)
//	to the keeper: 3 keep (a descriptor), 4 drop, 5 drop all, 6 ready, 7 replace
//
// # Trust
//
// A child may send anything, since a guest may have made it do so. A message that isn't one of
// these, or more descriptors than MaxKept, end the child: that is a crash. Children that crash too
// often are not replaced any more: then the descriptors are closed and Run says so. What a child
// keeps, it could have held itself: the keeper gives it to nobody but the next child.
//
// A keeper that has no room for a descriptor keeps nothing any more: the child goes on, and is the
// last. What a start takes is always there.
//
// # Concurrency
//
// Run owns the descriptors. Replace and Last may be called from anywhere, as may the methods of a
// Client.
package keeper
