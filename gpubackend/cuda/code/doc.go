// SPDX-License-Identifier: Apache-2.0

// Package code has the modules, libraries, functions and links.
//
//	code.go       what code needs of the driver and of other rooms
//	load.go       loading and unloading, and the options and logs of the compiler
//	image.go      what an image must be before the driver gets it
//	held.go       what images count for of the host's memory
//	variables.go  what variables count for of device memory
//	managed.go    images with managed variables, which are loaded in steps (package managed)
//	placed.go     where those variables are, and what they begin with
//	plain.go      variables that are placed where another process can have them
//	constants.go  addresses of constants that another process can have, too (savedconstants.go)
//	enumerate.go  the functions of modules and libraries
//	describe.go   what a guest learns of a function
//	cluster.go    clusters of launches
//	link.go       links
//	saved.go      what another process can't make again
//
// Images, options and names come from the guest as they are: lengths are checked here, and options
// that hold pointers are refused. What is inside an image the driver checks, in a process that
// serves one guest process.
package code
