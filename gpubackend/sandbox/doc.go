// SPDX-License-Identifier: Apache-2.0

// Package sandbox takes from a VM's processes the rights that they don't need, so that a process
// that was taken over can do little.
//
// A Starter starts children without privileges; with Apart and Alone, in namespaces of their own,
// where ownroot has files for them. Environment says which variables they get, and CloseInherited
// keeps from them the descriptors that this process inherited by accident. KeepOnly, NotDumpable
// and OnlyFiles take rights from the process that calls them. A process calls Filter when it is
// ready: from then on the kernel kills it if it makes a system call that its role doesn't need. The
// calls are described only in callsgen, which generates the filters' programs and
// docs/system-calls.md.
//
// # Who owns what
//
// A Starter has an operating-system thread of its own, which loses its privileges for good and
// starts the children: they inherit the rights that the thread still has. The rest of the process
// keeps its own.
//
// # Who may lie
//
// Nobody gives input here. The package limits the damage when checks elsewhere have failed.
//
// # Files
//
//	children         starter.go environment.go files.go (descriptors)
//	own privileges   own.go own_unsafe.go dumpable.go landlock.go (files)
//	system calls     filter.go filter_unsafe.go callsgen (their description)
package sandbox
