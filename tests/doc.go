// SPDX-License-Identifier: Apache-2.0

// Package tests holds the whole-system tests. They prove that unmodified CUDA
// programs, built by nvcc and run in a virtual machine by "paracuda run", give
// the exit codes, standard output and standard error that they gave on an
// NVIDIA GPU (programs/want), that a program that failed leaves a device on
// which the next one works, and that bad input is answered with one line.
//
// Everything runs as a user would run it: bin/paracuda is the one just built,
// the front ends are real, and nothing within Paracuda is replaced. The programs
// are those of programs/programs.txt. One boot of a VM runs many of them, by
// means of runner/runner.
//
// The tests read these variables:
//
//	PARACUDA_VM        the front ends, joined by commas: uml,qemu
//	PARACUDA_GPU       the device: soft
//	PARACUDA           the program under test: bin/paracuda
//	PARACUDA_PROGRAMS  a folder where programs/build has put them, with an nvcc that is not at hand
//	NVCC               the compiler: that of the cache, or else nvcc
//	PARACUDA_FAULTS    how often a process is killed or stopped: make stress-faults
//	PARACUDA_NIGHTLY   set: there is time for every release of QEMU, and for what takes long
//
// With -short nothing is booted: only what reads lists and results is tested.
package tests
