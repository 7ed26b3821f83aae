// SPDX-License-Identifier: Apache-2.0

// Package tests holds the tests of the whole system, and those of the tree: its documents, names
// and layers. The former prove that unmodified CUDA programs, built by nvcc and run in a virtual
// machine by "paracuda run", give the exit codes, standard output and standard error that they gave
// on an NVIDIA GPU (programs/want); that a program that fails leaves a device on which the next one
// works; that VMs can be suspended and migrated; and that bad input is answered with one line.
//
// Everything runs as a user would run it: bin/paracuda is the one just built, the front ends are
// real, and nothing within Paracuda is replaced. The programs are those of programs/programs.txt.
// runner/runner runs many of them in one boot of a VM.
//
// The tests read these variables, and the Makefile's targets for long runs set some more:
//
//	PARACUDA_VM        the front ends, joined by commas: uml,qemu
//	PARACUDA_GPU       the device, as paracuda run --gpu names it: soft
//	PARACUDA           the program under test: bin/paracuda
//	PARACUDA_PROGRAMS  a folder with programs that programs/build has built: none is built here
//	NVCC               the compiler: that of the cache, or else nvcc
//	PARACUDA_FAULTS    how often a process is killed or stopped: make stress-faults
//	PARACUDA_NIGHTLY   if set: every release of QEMU, and what takes long
//	PARACUDA_RANDOM    the number of random requests of the guest driver
//	PARACUDA_SEED      their seed, to repeat a run
//
// With -short no VM is booted: only the tree is tested, and what else needs no VM.
package tests
