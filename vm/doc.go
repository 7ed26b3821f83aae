// SPDX-License-Identifier: Apache-2.0

// Package vm runs one program in a throw-away virtual machine that sees the
// host's files.
//
// Two front ends do the work: QEMU with a stock Linux kernel, and User Mode
// Linux, a Linux kernel that is itself a program. Both start the same init
// (guestdriver/init), which makes the host's files its root, read-only, with a
// writable layer over /tmp that is gone with the VM, loads the kernel modules it
// is given, and runs the program in the caller's directory. All that passes
// between host and program (what to run, the three standard streams, the exit
// code) goes as frames over one byte stream, the link: a virtio port in QEMU, a
// serial line in User Mode Linux.
//
// User Mode Linux guards the host's files less: a program that mounts them again can write to them
// where the caller may. Standard input passes at half a megabyte a second there.
//
// A VM dies with the process that started it, and leaves nothing behind.
//
// # Files
//
//	asked for      config.go places.go (where the program may write)
//	the VM         run.go assets.go (its parts) library.go (the driver's libraries)
//	  QEMU         qemu.go accel.go (KVM or TCG) finding.go (what a trial found) initramfs.go
//	               copied.go (a VM that begins as a copy of one that has booted)
//	  UML          uml.go
//	its process    process.go tail.go (the last of what it prints)
//	its program    session.go link.go (frames to init and back) job.go (what init is to do)
package vm
