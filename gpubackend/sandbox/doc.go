// SPDX-License-Identifier: Apache-2.0

// Package sandbox takes from the processes of a VM what they don't need, so that one that was taken
// over has little to work with.
//
// A Starter starts children without privileges; with Apart and Alone, in namespaces of their own,
// where ownroot has files for them. Environment says which variables they get, and CloseInherited
// keeps descriptors that this process inherited by accident from them. KeepOnly, NotDumpable and
// OnlyFiles take something from the process that calls them. Filter is called by one that is ready:
// from then on the kernel kills it when it makes a system call that its role doesn't need. The
// calls are described in callsgen alone: the filters' programs and docs/system-calls.md are made
// from that.
//
// # Who owns what
//
// A Starter has an operating-system thread of its own, which loses its privileges for good and
// starts the children: they inherit what the thread has left. The rest of the process keeps its
// own.
//
// # Who may lie
//
// Nobody is asked here. The package is for what happens when the checks elsewhere have failed.
//
// # Files
//
//	children         starter.go environment.go files.go (descriptors)
//	own privileges   own.go own_unsafe.go dumpable.go landlock.go (files)
//	system calls     filter.go filter_unsafe.go callsgen (their description)
package sandbox
